package lakemark;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.util.DateTimeUtils$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** What texts become as a simple type, by the rules of docs/semantics.md: `of`, for every type a class. */
abstract class TextValues {

    private static final int DIGITS_MAX = 400; // of a number, before and behind its point, that anybody needs
    private static final int EXPONENT_MAX = 999;
    private static final long FIRST = -62_135_596_800_000_000L; // microseconds: the years 1 to 9999
    private static final long LAST = 253_402_300_799_999_999L;

    /** The text's value, as Spark holds it; null: it is none. Args: unit: what a number counts, for moments. */
    abstract Object of(String text, UTF8String unit);

    /** The type, for people. */
    abstract String name();

    /** Whether no value is rounded or cut to become one of the field's type: its comment says so. */
    static boolean isExact(StructField field) {
        return field.metadata().contains("comment") && field.metadata().getString("comment").equals("exact");
    }

    /** Raises IllegalArgumentException: a text is none. */
    static TextValues of(DataType type, boolean isExact) {
        if (type instanceof DecimalType) {
            return new Decimals((DecimalType) type, isExact);
        }
        if (type instanceof TimestampType || type instanceof TimestampNTZType) {
            return new Moment(type instanceof TimestampType, isExact);
        }
        if (type.equals(DataTypes.DateType)) {
            return new Day();
        }
        if (type.equals(DataTypes.BooleanType)) {
            return new Flag();
        }
        if (type.equals(DataTypes.FloatType) || type.equals(DataTypes.DoubleType)) {
            return new Real(type.equals(DataTypes.FloatType));
        }
        if (type.equals(DataTypes.ByteType)) {
            return new Whole(8);
        }
        if (type.equals(DataTypes.ShortType)) {
            return new Whole(16);
        }
        if (type.equals(DataTypes.IntegerType)) {
            return new Whole(32);
        }
        if (type.equals(DataTypes.LongType)) {
            return new Whole(64);
        }
        throw new IllegalArgumentException("a type that Lakemark reads, not " + type.sql());
    }

    /** Few digits, and a small exponent: a computer needs days for `1e999999999` as a decimal. */
    static boolean isNumber(String text) {
        int end = text.length();
        int at = end > 0 && (text.charAt(0) == '+' || text.charAt(0) == '-') ? 1 : 0;
        int point = digitsEnd(text, at);
        int before = point - at;
        int behind = 0;
        at = point;
        if (at < end && text.charAt(at) == '.') {
            at = digitsEnd(text, at + 1);
            behind = at - point - 1;
        }
        if (before + behind == 0 || before > DIGITS_MAX || behind > DIGITS_MAX) {
            return false;
        }
        if (at == end) {
            return true;
        }
        if ((text.charAt(at) | 0x20) != 'e') {
            return false;
        }
        at++;
        if (at < end && (text.charAt(at) == '+' || text.charAt(at) == '-')) {
            at++;
        }
        int exponent = 0;
        int first = at;
        for (; at < end && isDigit(text.charAt(at)) && exponent <= EXPONENT_MAX; at++) {
            exponent = 10 * exponent + text.charAt(at) - '0';
        }
        return at == end && at > first && exponent <= EXPONENT_MAX && at - first <= DIGITS_MAX;
    }

    private static String exactly(String name, boolean isExact) {
        return isExact ? name + " exactly, as a key has to be" : name;
    }

    private static int digitsEnd(String text, int from) {
        int at = from;
        while (at < text.length() && isDigit(text.charAt(at))) {
            at++;
        }
        return at;
    }

    private static boolean isDigit(char character) {
        return character >= '0' && character <= '9'; // and no other script's
    }

    /** `true` or `false`, in small letters or capitals. */
    static class Flag extends TextValues {

        Object of(String text, UTF8String unit) {
            String lower = text.toLowerCase(Locale.ROOT);
            return lower.equals("true") || lower.equals("false") ? (Object) Boolean.valueOf(lower) : null;
        }

        String name() {
            return "BOOLEAN";
        }
    }

    /** Digits, with or without a sign. */
    static class Whole extends TextValues {

        private final int bits;

        Whole(int bits) {
            this.bits = bits;
        }

        Object of(String text, UTF8String unit) {
            int first = !text.isEmpty() && (text.charAt(0) == '+' || text.charAt(0) == '-') ? 1 : 0;
            if (first == text.length() || digitsEnd(text, first) < text.length()) {
                return null;
            }
            try {
                return fitting(Long.parseLong(text));
            } catch (NumberFormatException error) {
                return null;
            }
        }

        /** The number as the type; null: it has none like it. */
        Object fitting(long value) {
            switch (bits) {
                case 8:
                    return value == (byte) value ? (Object) Byte.valueOf((byte) value) : null;
                case 16:
                    return value == (short) value ? (Object) Short.valueOf((short) value) : null;
                case 32:
                    return value == (int) value ? (Object) Integer.valueOf((int) value) : null;
                default:
                    return Long.valueOf(value);
            }
        }

        String name() {
            return bits == 8 ? "TINYINT" : bits == 16 ? "SMALLINT" : bits == 32 ? "INT" : "BIGINT";
        }
    }

    /** FLOAT and DOUBLE: numbers, and the words for what is none. */
    static class Real extends TextValues {

        private static final Pattern NOT_FINITE = Pattern.compile("[+-]?(?:Infinity|INF|Inf)|NaN");

        private final boolean isFloat;

        Real(boolean isFloat) {
            this.isFloat = isFloat;
        }

        Object of(String text, UTF8String unit) {
            if (!isNumber(text)) {
                return notFinite(text);
            }
            double value = Double.parseDouble(text);
            return Double.isInfinite(value) ? null : fitting(value);
        }

        Object notFinite(String text) {
            if (!NOT_FINITE.matcher(text).matches()) {
                return null;
            }
            double value = text.equals("NaN") ? Double.NaN : Double.POSITIVE_INFINITY;
            return fitting(text.startsWith("-") ? -value : value);
        }

        /** The number as the type; null: it would be infinite, and is not. */
        Object fitting(double value) {
            if (!isFloat) {
                return Double.valueOf(value);
            }
            return Float.isInfinite((float) value) && !Double.isInfinite(value) ? null : (Object) Float.valueOf((float) value);
        }

        String name() {
            return isFloat ? "FLOAT" : "DOUBLE";
        }
    }

    /** A number; what has more decimal places is rounded, half up, or is none. */
    static class Decimals extends TextValues {

        private final int precision;
        private final int scale;
        private final boolean isExact;

        Decimals(DecimalType type, boolean isExact) {
            precision = type.precision();
            scale = type.scale();
            this.isExact = isExact;
        }

        Object of(String text, UTF8String unit) {
            if (!isNumber(text)) {
                return null;
            }
            BigDecimal written = new BigDecimal(text);
            BigDecimal value = written.setScale(scale, RoundingMode.HALF_UP);
            boolean isRounded = isExact && value.compareTo(written) != 0;
            return isRounded || value.precision() > precision ? null : Decimal.apply(value, precision, scale);
        }

        String name() {
            return exactly("DECIMAL(" + precision + ", " + scale + ")", isExact);
        }
    }

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

        private static final ZoneId UTC = ZoneOffset.UTC;

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
                return isNone ? null : ofDay(UTF8String.fromString(text));
            }
            return unit != null && isCount(text) ? ofCount(text, unit.toString()) : null;
        }

        private static boolean beginsWithDay(String text) {
            return text.length() > 7 && text.charAt(4) == '-' && (text.charAt(7) == '-' || text.charAt(6) == '-');
        }

        /** Such are not read: to Java BST is in Bangladesh, and some hours come twice a year, or never. */
        private static boolean hasNamedZone(String text) {
            for (int n = 0; n < text.length(); n++) {
                if ("0123456789:.+-TZ ".indexOf(text.charAt(n)) < 0) {
                    return true;
                }
            }
            return false;
        }

        /** Whether it is a whole number. */
        static boolean isCount(String text) {
            int first = text.startsWith("-") ? 1 : 0;
            for (int n = first; n < text.length(); n++) {
                if (text.charAt(n) < '0' || text.charAt(n) > '9') {
                    return false;
                }
            }
            return text.length() > first && text.length() <= first + 19;
        }

        private Object ofDay(UTF8String text) {
            Option found = DateTimeUtils$.MODULE$.stringToTimestamp(text, UTC); // without a zone: the clocks of UTC
            return found.isEmpty() ? null : withinYears(((Long) found.get()).longValue());
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
                return null; // of nineteen digits not all are a long
            }
        }

        private static Object withinYears(long micros) {
            return micros < FIRST || micros > LAST ? null : (Object) Long.valueOf(micros);
        }

        String name() {
            return exactly(hasZone ? "TIMESTAMP" : "TIMESTAMP_NTZ", isExact);
        }
    }
}
