package lakemark;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * What a commit comes after.
 *
 * A commit may name the version that it succeeds, and that version's stamp (a setting of its session: 57@STAMP). Then it
 * lands there or nowhere: what was decided from that version is not true of a later one, nor of a table that was made
 * under the same name since. Delta alone would land it behind whatever came in between. No commit lands without the one
 * before it: the table was lost, and this would leave a gap in the log of the next one.
 */
abstract class Succession {

    private static final String SUCCEEDS = "spark.lakemark.commit.succeeds";
    private static final String STAGED = "spark.lakemark.commit.staged";

    /** The stamp of a version's commit, as `LogStore.stamp` in Python; "None" if the commit is not there. */
    abstract String stampOf(long version) throws IOException;

    /** Whether a version has a checkpoint in one file. */
    abstract boolean hasCheckpoint(long version) throws IOException;

    /** Refuses a commit that does not come after what it must come after. */
    void verify(Path commit, Configuration configuration) throws IOException {
        String name = commit.getName();
        if (!name.matches("[0-9]{20}\\.json")) {
            return;
        }
        String succession = configuration.get(SUCCEEDS);
        long version = Long.parseLong(name.substring(0, 20)) - 1;
        String before = version < 0 ? "None" : stampOf(version);
        if (version >= 0 && before.equals("None") && !hasCheckpoint(version)) {
            throw new IOException("LAKEMARK_OVERTAKEN: version " + version + " before " + commit
                + " is gone, so the table was lost");
        }
        if (succession != null && !succession.equals(version + "@" + before)) {
            throw new IOException("LAKEMARK_OVERTAKEN: " + name + " does not succeed " + succession);
        }
    }

    /** Whether a commit is only to be written beside the log, for somebody else to make it (a setting of its session). */
    static boolean isStaged(Path commit, Configuration configuration) {
        return commit.getName().matches("[0-9]{20}\\.json") && configuration.getBoolean(STAGED, false);
    }

    /** What ends the statement of a staged commit. Args: file: its name in the folder of the log. */
    static IOException staged(Path commit, String file) {
        return new IOException("LAKEMARK_STAGED: " + commit.getName() + " is in <" + file + ">");
    }

    static String file(long version, String suffix) {
        return String.format("%020d", new Object[] {Long.valueOf(version)}) + suffix;
    }
}
