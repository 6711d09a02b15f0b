package lakemark;

import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.util.DateTimeUtils$;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** Reads texts as DATE and as the timestamps: a class for each. */
class TextTimes {

    private TextTimes() {}

    /** Year-month-day; with a time only if that is midnight. */
    static class Day extends TextValues {

        private static final Pattern DAY =
            Pattern.compile("([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[T ]00:00(?::00(?:\\.0+)?)?Z?)?");

        Object of(String text, UTF8String unit) {
            Matcher found = DAY.matcher(text);
            if (!found.matches() || found.group(1).equals("0000")) {
                return null;
            }
            int year = Integer.parseInt(found.group(1));
            try {
                LocalDate day = LocalDate.of(year, Integer.parseInt(found.group(2)), Integer.parseInt(found.group(3)));
                return Integer.valueOf((int) day.toEpochDay());
            } catch (DateTimeException error) {
                return null;
            }
        }

        String name() {
            return "DATE";
        }
    }

    /** Year-month-day, with or without a time and an offset from UTC; a whole number where its unit is known. */
    static class Moment extends TextValues {

        private static final long FIRST = -62_135_596_800_000_000L; // microseconds: the years 1 to 9999
        private static final long LAST = 253_402_300_799_999_999L;

        private static final ZoneId UTC = ZoneOffset.UTC;

        /** ISO 8601 may leave out the seconds, and Java's OffsetDateTime does if they are zero. Spark asks for them. */
        private static final Pattern NO_SECONDS = Pattern.compile("(.*[T ][0-9]{1,2}:[0-9]{1,2})( *(?:Z|[+-]).*)");
        private static final Pattern CUT = Pattern.compile(".*\\.[0-9]{6}[0-9]*[1-9].*");

        private final boolean hasZone;
        private final boolean isExact;

        Moment(boolean hasZone, boolean isExact) {
            this.hasZone = hasZone;
            this.isExact = isExact;
        }

        Object of(String text, UTF8String unit) {
            if (beginsWithDay(text)) {
                boolean isNone = hasNamedZone(text) || (isExact && CUT.matcher(text).matches());
                return isNone ? null : ofDay(text);
            }
            return unit != null && isCount(text) ? ofCount(text, unit.toString()) : null;
        }

        private static boolean beginsWithDay(String text) {
            return text.length() > 7 && text.charAt(4) == '-' && (text.charAt(7) == '-' || text.charAt(6) == '-');
        }

        /**
         * Whether the text may name a zone. Such texts are not read: to Java, BST is in Bangladesh; and some hours come
         * twice a year, or never.
         */
        private static boolean hasNamedZone(String text) {
            for (int n = 0; n < text.length(); n++) {
                if ("0123456789:.+-TZ ".indexOf(text.charAt(n)) < 0) {
                    return true;
                }
            }
            return false;
        }

        /** Whether the text is a whole number. */
        static boolean isCount(String text) {
            int first = text.startsWith("-") ? 1 : 0;
            for (int n = first; n < text.length(); n++) {
                if (text.charAt(n) < '0' || text.charAt(n) > '9') {
                    return false;
                }
            }
            return text.length() > first && text.length() <= first + 19;
        }

        private Object ofDay(String text) {
            Option found = parsed(text);
            if (found.isEmpty()) {
                Matcher without = NO_SECONDS.matcher(text);
                found = without.matches() ? parsed(without.group(1) + ":00" + without.group(2)) : found;
            }
            return found.isEmpty() ? null : withinYears(((Long) found.get()).longValue());
        }

        private static Option parsed(String text) {
            return DateTimeUtils$.MODULE$.stringToTimestamp(UTF8String.fromString(text), UTC); // without a zone: UTC
        }

        private Object ofCount(String written, String unit) {
            try {
                long count = Long.parseLong(written);
                if (unit.equals("seconds")) {
                    return withinYears(Math.multiplyExact(count, 1_000_000L));
                }
                if (unit.equals("millis")) {
                    return withinYears(Math.multiplyExact(count, 1_000L));
                }
                if (unit.equals("nanos")) {
                    return isExact && count % 1_000L != 0 ? null : withinYears(Math.floorDiv(count, 1_000L));
                }
                return unit.equals("micros") ? withinYears(count) : null;
            } catch (ArithmeticException error) {
                return null;
            } catch (NumberFormatException error) {
                return null; // not every number of nineteen digits fits a long
            }
        }

        private static Object withinYears(long micros) {
            return micros < FIRST || micros > LAST ? null : (Object) Long.valueOf(micros);
        }

        String name() {
            return TextValues.exactly(hasZone ? "TIMESTAMP" : "TIMESTAMP_NTZ", isExact);
        }
    }
}
