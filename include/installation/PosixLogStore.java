package lakemark;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
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
 *
 * A commit may name the version that it succeeds, and that version's stamp (a setting of its session: 57@STAMP). Then it
 * lands there or nowhere: what was decided from that version is not true of a later one, nor of a table that was made
 * under the same name since. Delta alone would land it behind whatever came in between. No commit lands without the one
 * before it: the table was lost, and this would leave a gap in the log of the next one.
 */
public class PosixLogStore extends HadoopFileSystemLogStore {

    private static final String SUCCEEDS = "spark.lakemark.commit.succeeds";

    public PosixLogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
        if (overwrite.booleanValue()) {
            writeWithRename(path, actions, overwrite, configuration);
            return;
        }
        File commit = new File(path.toUri().getPath());
        refuseIfOvertaken(commit, configuration.get(SUCCEEDS));
        File temporary = new File(createTempPath(path).toUri().getPath());
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

    private static void refuseIfOvertaken(File commit, String succession) throws IOException {
        String name = commit.getName();
        if (!name.matches("[0-9]{20}\\.json")) {
            return;
        }
        long version = Long.parseLong(name.substring(0, 20)) - 1;
        File before = file(commit, version, ".json");
        if (version >= 0 && !before.exists() && !file(commit, version, ".checkpoint.parquet").exists()) {
            throw new IOException("LAKEMARK_OVERTAKEN: " + before + " is gone, so the table was lost");
        }
        if (succession != null && !succession.equals(version + "@" + stampOf(before))) {
            throw new IOException("LAKEMARK_OVERTAKEN: " + name + " does not succeed " + succession);
        }
    }

    private static File file(File commit, long version, String suffix) {
        return new File(commit.getParentFile(), String.format("%020d", new Object[] {Long.valueOf(version)}) + suffix);
    }

    /** As `PosixLogStore.stamp` in Python. */
    private static String stampOf(File commit) throws IOException {
        if (!commit.exists()) {
            return "None";
        }
        FileTime changed = Files.getLastModifiedTime(commit.toPath(), new LinkOption[0]);
        return String.valueOf(changed.to(TimeUnit.MICROSECONDS));
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
}
