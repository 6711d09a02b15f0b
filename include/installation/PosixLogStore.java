package lakemark;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Makes Delta's commits on a POSIX file system, safely for any number of processes.
 *
 * Delta's own LocalLogStore checks whether the commit's file exists, writes a temporary file and renames it. Two processes
 * that check at the same moment both commit, and the second rename silently replaces the first commit. Here the file gets
 * its name by a hard link, which the file system makes only if no file has that name. The bytes are on the disk before
 * that, so a crash of the machine leaves no empty commit.
 */
public class PosixLogStore extends HadoopFileSystemLogStore {

    public PosixLogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
        if (overwrite.booleanValue()) {
            writeWithRename(path, actions, overwrite, configuration);
            return;
        }
        File commit = new File(path.toUri().getPath());
        new InFolder(commit.getParentFile()).verify(path, configuration);
        File temporary = new File(createTempPath(path).toUri().getPath());
        if (Succession.isStaged(path, configuration)) {
            if (commit.exists()) {
                throw new FileAlreadyExistsException(path.toString());
            }
            writeDurably(temporary, actions);
            throw Succession.staged(path, temporary.getName());
        }
        try {
            writeDurably(temporary, actions);
            Files.createLink(commit.toPath(), temporary.toPath());
        } finally {
            Files.deleteIfExists(temporary.toPath());
        }
    }

    /** Checkpoints are written under another name and renamed. Two checkpoints of one version hold the same. */
    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return Boolean.TRUE;
    }

    private static void writeDurably(File file, Iterator actions) throws IOException {
        OpenOption[] options = {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE};
        FileChannel channel = FileChannel.open(file.toPath(), options);
        try {
            while (actions.hasNext()) {
                ByteBuffer line = ByteBuffer.wrap((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
                while (line.hasRemaining()) {
                    channel.write(line);
                }
            }
            channel.force(true);
        } finally {
            channel.close();
        }
    }

    /** A log in a folder. */
    private static final class InFolder extends Succession {

        private final File folder;

        InFolder(File folder) {
            this.folder = folder;
        }

        String stampOf(long version) throws IOException {
            File commit = new File(folder, file(version, ".json"));
            if (!commit.exists()) {
                return "None";
            }
            FileTime changed = Files.getLastModifiedTime(commit.toPath(), new LinkOption[0]);
            return String.valueOf(changed.to(TimeUnit.MICROSECONDS));
        }

        boolean hasCheckpoint(long version) {
            return new File(folder, file(version, ".checkpoint.parquet")).exists();
        }
    }
}
