package lakemark;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads a text as a simple type, by the rules of docs/semantics.md. Every type has a class with `of`. */
abstract class TextValues {

    private static final int DIGITS_MAX = 400; // before or after the point; nobody needs more
    private static final int EXPONENT_MAX = 999;

    /** The text's value, as Spark holds it; null: it does not fit. Args: unit: what a number counts, for timestamps. */
    abstract Object of(String text, UTF8String unit);

    /** The type, for people. */
    abstract String name();

    /** Whether no value of the field may be rounded or cut: the field's comment says so. */
    static boolean isExact(StructField field) {
        return field.metadata().contains("comment") && field.metadata().getString("comment").equals("exact");
    }

    /** Throws IllegalArgumentException: a text cannot be of this type. */
    static TextValues of(DataType type, boolean isExact) {
        if (type instanceof DecimalType) {
            return new Decimals((DecimalType) type, isExact);
        }
        if (type instanceof TimestampType || type instanceof TimestampNTZType) {
            return new TextTimes.Moment(type instanceof TimestampType, isExact);
        }
        if (type.equals(DataTypes.DateType)) {
            return new TextTimes.Day();
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

    /** Whether it is a number of few digits and a small exponent: `1e999999999` as a decimal takes a computer days. */
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

    static String exactly(String name, boolean isExact) {
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
        return character >= '0' && character <= '9'; // no other script's digits
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

        /** The number as the type; null: it is out of range. */
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

    /** FLOAT and DOUBLE: numbers, and the words for infinity and "not a number". */
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

        /** The number as the type; null: it would become infinite, and is not. */
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

    /** A number. One with more decimal places is rounded half up, or does not fit an exact column. */
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
}
