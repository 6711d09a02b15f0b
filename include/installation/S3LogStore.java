package lakemark;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.apache.hadoop.fs.s3a.UnknownStoreException;

/**
 * Makes Delta's commits on an S3-compatible store, safely for any number of processes.
 *
 * Delta's own S3SingleDriverLogStore is safe for the threads of one JVM. Here the store itself decides between two
 * writers: a commit is created on condition that there is none. An answer may get lost, and S3A and its SDK send a request
 * again by themselves: then the store refuses a commit that is there already, and is one's own. So every commit has an id
 * of its own in the object's metadata (`include/lake/s3/creating.py` does the same).
 */
public class S3LogStore extends S3SingleDriverLogStore {

    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
    private static final String WRITE_ID = "lakemark-write";
    private static final long GIVES_UP_AFTER = 60_000_000_000L; // nanoseconds
    private static final int WHOLE_TRIES = 20; // s3proxy may show an object for a moment without tag and metadata
    private static final long PAUSE = 100L, PAUSE_MAX = 2_000L; // milliseconds

    public S3LogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, configuration);
            return;
        }
        byte[] content = contentOf(actions); // whole before the first request: closing a file publishes it
        FileSystem store = path.getFileSystem(configuration);
        if (!store.hasPathCapability(path, CONDITIONAL)) {
            throw new IOException("LAKEMARK: " + store.getClass().getName() + " cannot create " + path + " conditionally");
        }
        new InBucket(store, path.getParent()).verify(path, configuration);
        if (Succession.isStaged(path, configuration)) {
            if (store.exists(path)) {
                throw new FileAlreadyExistsException(path.toString());
            }
            Path staged = new Path(path.getParent(), "." + path.getName() + "." + UUID.randomUUID() + ".tmp");
            create(store, staged, content);
            throw Succession.staged(path, staged.getName());
        }
        create(store, path, content);
    }

    private static byte[] contentOf(Iterator actions) throws IOException {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            content.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
        }
        return content.toByteArray();
    }

    /** A request without a clear answer may still be on its way: it is sent again with the same id, until one answers. */
    private static void create(FileSystem store, Path path, byte[] content) throws IOException {
        String mine = UUID.randomUUID().toString();
        long until = System.nanoTime() + GIVES_UP_AFTER;
        long pause = PAUSE;
        boolean unclear = false;
        while (true) {
            try {
                put(store, path, content, mine);
                return;
            } catch (IOException error) {
                if (error instanceof RemoteFileChangedException) {
                    String theirs = writerOf(store, path);
                    if (mine.equals(theirs)) {
                        return;
                    }
                    if (theirs != null) {
                        throw new FileAlreadyExistsException(path.toString());
                    } // else it is not there (any more)
                }
                boolean refused = error instanceof AccessDeniedException || error instanceof UnknownStoreException;
                if (refused && !unclear) {
                    throw error;
                }
                if (refused || System.nanoTime() > until || Thread.currentThread().isInterrupted()) {
                    throw unknown(path, error);
                }
                unclear = true;
            }
            pause(pause);
            pause = Math.min(2 * pause, PAUSE_MAX);
        }
    }

    private static void pause(long milliseconds) throws IOException {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("LAKEMARK_UNKNOWN: interrupted, and a commit may be there");
        }
    }

    private static void put(FileSystem store, Path path, byte[] content, String id) throws IOException {
        FSDataOutputStreamBuilder builder = store.createFile(path);
        builder.overwrite(false);
        builder.must(CONDITIONAL, true);
        builder.must("fs.s3a.create.header." + WRITE_ID, id);
        FSDataOutputStream file = (FSDataOutputStream) builder.build();
        try {
            file.write(content);
        } catch (IOException error) {
            file.abort();
            throw error;
        }
        file.close();
    }

    /** The id of the write that made an object; empty if its writer gave none; null if it is not there (any more). */
    private static String writerOf(FileSystem store, Path path) throws IOException {
        try {
            byte[] id = store.getXAttr(path, "header." + WRITE_ID);
            for (int tries = 1; id == null && store.getXAttr(path, "header.ETag") == null && tries < WHOLE_TRIES; tries++) {
                pause(PAUSE);
                id = store.getXAttr(path, "header." + WRITE_ID);
            }
            return id == null ? "" : new String(id, StandardCharsets.UTF_8);
        } catch (FileNotFoundException none) {
            return null;
        } catch (IOException error) {
            throw unknown(path, error);
        }
    }

    private static IOException unknown(Path path, IOException error) {
        return new IOException("LAKEMARK_UNKNOWN: the store gave no clear answer whose " + path + " is", error);
    }

    /** A log below a prefix. */
    private static final class InBucket extends Succession {

        private final FileSystem store;
        private final Path log;

        InBucket(FileSystem store, Path log) {
            this.store = store;
            this.log = log;
        }

        String stampOf(long version) throws IOException {
            for (int tries = 1; tries <= WHOLE_TRIES; tries++) {
                FileStatus found = statusOf(version, ".json");
                String tag = found == null ? "None" : ((EtagSource) found).getEtag();
                if (tag != null && !tag.isEmpty()) {
                    return tag.replace("\"", "");
                }
                pause(PAUSE);
            }
            throw new IOException("the store does not tell the tag of version " + version + " in " + log);
        }

        boolean hasCheckpoint(long version) throws IOException {
            return statusOf(version, ".checkpoint.parquet") != null;
        }

        private FileStatus statusOf(long version, String suffix) throws IOException {
            try {
                return store.getFileStatus(new Path(log, file(version, suffix)));
            } catch (FileNotFoundException none) {
                return null;
            }
        }
    }
}
