package lakemark;

import com.fasterxml.jackson.core.JsonToken;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.DateTimeUtils$;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** What values of JSON become as a declared type, by the rules of docs/semantics.md: `read`, for every type a class. */
abstract class JsonValues {

    /** In the place of a value that is none of the type. */
    static class Lost {

        final String path; // within the value, with a point before every name
        final String why;

        Lost(String path, String why) {
            this.path = path;
            this.why = why;
        }
    }

    private static final int DIGITS_MAX = 400; // of a number, before and behind its point, that anybody needs
    private static final int EXPONENT_MAX = 999;
    private static final long FIRST = -62_135_596_800_000_000L; // microseconds: the years 1 to 9999
    private static final long LAST = 253_402_300_799_999_999L;

    /** The value whose first token is the text's; to its last token. Never null: null is for the caller. */
    abstract Object read(JsonText text, UTF8String unit) throws JsonText.Problem;

    /** Raises IllegalArgumentException: there is no such value in JSON. */
    static JsonValues of(DataType type) {
        if (type instanceof StructType) {
            return new Struct((StructType) type);
        }
        if (type instanceof ArrayType) {
            return new Items(of(((ArrayType) type).elementType()));
        }
        if (type instanceof MapType) {
            return new Entries(of(((MapType) type).keyType()), of(((MapType) type).valueType()));
        }
        if (type instanceof DecimalType) {
            return new Decimals((DecimalType) type);
        }
        if (type instanceof VariantType) {
            return new Json();
        }
        if (type instanceof TimestampType || type instanceof TimestampNTZType) {
            return new Moment(type instanceof TimestampType);
        }
        if (type.equals(DataTypes.StringType)) {
            return new Text();
        }
        if (type.equals(DataTypes.BooleanType)) {
            return new Flag();
        }
        if (type.equals(DataTypes.BinaryType)) {
            return new Bytes();
        }
        if (type.equals(DataTypes.DateType)) {
            return new Day();
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
        throw new IllegalArgumentException("a type that Lakemark reads from JSON, not " + type.sql());
    }

    /** The type, for people. */
    abstract String name();

    /** The value that was read is another thing. */
    Object lost() {
        return new Lost("", "is no " + name());
    }

    /** The value that begins here is another thing. */
    Object passedOver(JsonText text) throws JsonText.Problem {
        text.skip();
        return lost();
    }

    /** Args: lost: one of the items, or of the values, of this. */
    private static Object within(Object lost) {
        return new Lost("[]" + ((Lost) lost).path, ((Lost) lost).why);
    }

    private static Object readOrNull(JsonValues type, JsonText text, UTF8String unit) throws JsonText.Problem {
        return text.token() == JsonToken.VALUE_NULL ? null : type.read(text, unit);
    }

    /** Fields by their names; what the type does not name is passed over. */
    static class Struct extends JsonValues {

        private final StructType type;
        private final JsonValues[] fields;
        private final HashMap places = new HashMap(); // of a name: Integer

        Struct(StructType type) {
            this.type = type;
            fields = new JsonValues[type.length()];
            for (int n = 0; n < fields.length; n++) {
                StructField field = type.fields()[n];
                fields[n] = of(field.dataType());
                places.put(field.name(), Integer.valueOf(n));
            }
        }

        /** The fields' values, some of them `Lost`; null: it is no object, and read to its end. */
        Object[] values(JsonText text, UTF8String unit) throws JsonText.Problem {
            if (text.token() != JsonToken.START_OBJECT) {
                text.skip();
                return null;
            }
            Object[] found = new Object[fields.length];
            while (text.next() != JsonToken.END_OBJECT) {
                Integer place = (Integer) places.get(text.text());
                text.next();
                if (place == null) {
                    text.skip();
                } else {
                    found[place.intValue()] = readOrNull(fields[place.intValue()], text, unit);
                }
            }
            return found;
        }

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            Object[] found = values(text, unit);
            if (found == null) {
                return lost();
            }
            Lost lost = settled(found);
            return lost != null ? lost : (Object) new GenericInternalRow(found);
        }

        /** The first of the values that are lost, its path with the field's name; null: none is. Null takes their
            places. */
        Lost settled(Object[] values) {
            Lost first = null;
            for (int n = 0; n < values.length; n++) {
                if (values[n] instanceof Lost) {
                    Lost lost = (Lost) values[n];
                    first = first != null ? first : new Lost("." + type.fields()[n].name() + lost.path, lost.why);
                    values[n] = null;
                }
            }
            return first;
        }

        String name() {
            return "STRUCT";
        }
    }

    static class Items extends JsonValues {

        private final JsonValues type;

        Items(JsonValues type) {
            this.type = type;
        }

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            if (text.token() != JsonToken.START_ARRAY) {
                return passedOver(text);
            }
            ArrayList found = new ArrayList();
            Object lost = null;
            while (text.next() != JsonToken.END_ARRAY) {
                Object item = readOrNull(type, text, unit);
                lost = item instanceof Lost ? within(item) : lost;
                found.add(item);
            }
            return lost != null ? lost : new GenericArrayData(found.toArray());
        }

        String name() {
            return "ARRAY";
        }
    }

    static class Entries extends JsonValues {

        private final JsonValues type;

        Entries(JsonValues names, JsonValues type) {
            if (!(names instanceof Text)) {
                throw new IllegalArgumentException("a map whose keys are STRING: JSON has no others");
            }
            this.type = type;
        }

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            if (text.token() != JsonToken.START_OBJECT) {
                return passedOver(text);
            }
            ArrayList names = new ArrayList();
            ArrayList values = new ArrayList();
            Object lost = null;
            while (text.next() != JsonToken.END_OBJECT) {
                names.add(UTF8String.fromString(text.text()));
                text.next();
                Object value = readOrNull(type, text, unit);
                lost = value instanceof Lost ? within(value) : lost;
                values.add(value);
            }
            Object found = new ArrayBasedMapData(new GenericArrayData(names.toArray()), new GenericArrayData(values.toArray()));
            return lost != null ? lost : found;
        }

        String name() {
            return "MAP";
        }
    }

    /** A text, or the JSON of what is none. */
    static class Text extends JsonValues {

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            return UTF8String.fromString(text.token() == JsonToken.VALUE_STRING ? text.text() : text.json());
        }

        String name() {
            return "STRING";
        }
    }

    /** In the place of a variant: the JSON of a value as it is written; of a text, a quotation mark and the text. */
    static class Json extends JsonValues {

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            return text.token() == JsonToken.VALUE_STRING ? UTF8String.fromString('"' + text.text()) : text.slice();
        }

        String name() {
            return "JSON";
        }
    }

    static class Flag extends JsonValues {

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            return text.token().isBoolean() ? (Object) Boolean.valueOf(text.token() == JsonToken.VALUE_TRUE) : passedOver(text);
        }

        String name() {
            return "BOOLEAN";
        }
    }

    static class Whole extends JsonValues {

        private final int bits;

        Whole(int bits) {
            this.bits = bits;
        }

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            if (!text.isLong()) {
                return passedOver(text);
            }
            long value = text.asLong();
            switch (bits) {
                case 8:
                    return value == (byte) value ? (Object) Byte.valueOf((byte) value) : lost();
                case 16:
                    return value == (short) value ? (Object) Short.valueOf((short) value) : lost();
                case 32:
                    return value == (int) value ? (Object) Integer.valueOf((int) value) : lost();
                default:
                    return Long.valueOf(value);
            }
        }

        String name() {
            return bits == 8 ? "TINYINT" : bits == 16 ? "SMALLINT" : bits == 32 ? "INT" : "BIGINT";
        }
    }

    /** FLOAT and DOUBLE: numbers, and the texts that stand for what is none. */
    static class Real extends JsonValues {

        private static final Pattern NOT_FINITE = Pattern.compile("[+-]?Infinity|[+-]INF|NaN");

        private final boolean isFloat;

        Real(boolean isFloat) {
            this.isFloat = isFloat;
        }

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            double value;
            if (text.token().isNumeric()) {
                value = Double.parseDouble(text.text());
            } else if (text.token() == JsonToken.VALUE_STRING && NOT_FINITE.matcher(text.text()).matches()) {
                value = Double.parseDouble(text.text().replace("INF", "Infinity"));
            } else {
                return passedOver(text);
            }
            if (!isFloat) {
                return Double.valueOf(value);
            }
            return Float.isInfinite((float) value) && !Double.isInfinite(value) ? lost() : (Object) Float.valueOf((float) value);
        }

        String name() {
            return isFloat ? "FLOAT" : "DOUBLE";
        }
    }

    /** Numbers, and texts that are written like them. */
    static class Decimals extends JsonValues {

        private final int precision;
        private final int scale;

        Decimals(DecimalType type) {
            precision = type.precision();
            scale = type.scale();
        }

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            if (!text.token().isNumeric() && text.token() != JsonToken.VALUE_STRING) {
                return passedOver(text);
            }
            String written = text.text();
            if (!isNumber(written)) {
                return lost();
            }
            BigDecimal value = new BigDecimal(written).setScale(scale, RoundingMode.HALF_UP);
            return value.precision() > precision ? lost() : Decimal.apply(value, precision, scale);
        }

        /** Few digits, and a small exponent: a computer needs days for `1e999999999` as a decimal. */
        private static boolean isNumber(String text) {
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

        String name() {
            return "DECIMAL(" + precision + ", " + scale + ")";
        }
    }

    /** Base64 with its padding. */
    static class Bytes extends JsonValues {

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            if (text.token() != JsonToken.VALUE_STRING) {
                return passedOver(text);
            }
            String written = text.text();
            try {
                return written.length() % 4 == 0 ? (Object) Base64.getDecoder().decode(written) : lost();
            } catch (IllegalArgumentException error) {
                return lost();
            }
        }

        String name() {
            return "BINARY";
        }
    }

    /** Year-month-day; with a time only if that is midnight. */
    static class Day extends JsonValues {

        private static final Pattern DAY =
            Pattern.compile("([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[T ]00:00(?::00(?:\\.0+)?)?Z?)?");

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            if (text.token() != JsonToken.VALUE_STRING) {
                return passedOver(text);
            }
            Matcher found = DAY.matcher(text.text());
            if (!found.matches() || found.group(1).equals("0000")) {
                return lost();
            }
            int year = Integer.parseInt(found.group(1));
            try {
                LocalDate day = LocalDate.of(year, Integer.parseInt(found.group(2)), Integer.parseInt(found.group(3)));
                return Integer.valueOf((int) day.toEpochDay());
            } catch (DateTimeException error) {
                return lost();
            }
        }

        String name() {
            return "DATE";
        }
    }

    /** Year-month-day, with or without a time and an offset from UTC; a whole number where its unit is known. */
    static class Moment extends JsonValues {

        private static final ZoneId UTC = ZoneOffset.UTC;
        private static final int DAY_LENGTH = 10;

        private final boolean hasZone;

        Moment(boolean hasZone) {
            this.hasZone = hasZone;
        }

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            if (text.token() != JsonToken.VALUE_STRING && text.token() != JsonToken.VALUE_NUMBER_INT) {
                return passedOver(text);
            }
            String written = text.text();
            if (beginsWithDay(written)) {
                return hasNamedZone(written) ? lost() : ofText(UTF8String.fromString(written));
            }
            if (!isWhole(written)) {
                return lost();
            }
            if (unit == null) {
                return new Lost("", "is a number, and source.timestamps does not say what it counts");
            }
            return ofNumber(written, unit.toString());
        }

        private static boolean beginsWithDay(String text) {
            return text.length() > 7 && text.charAt(4) == '-' && (text.charAt(7) == '-' || text.charAt(6) == '-');
        }

        /** Such are not read: to Java BST is in Bangladesh, and some hours come twice a year, or never. */
        private static boolean hasNamedZone(String text) {
            for (int n = DAY_LENGTH; n < text.length(); n++) {
                if ("0123456789:.+-TZ ".indexOf(text.charAt(n)) < 0) {
                    return true;
                }
            }
            return false;
        }

        private static boolean isWhole(String text) {
            int first = text.startsWith("-") ? 1 : 0;
            for (int n = first; n < text.length(); n++) {
                if (text.charAt(n) < '0' || text.charAt(n) > '9') {
                    return false;
                }
            }
            return text.length() > first && text.length() <= first + 19;
        }

        private Object ofText(UTF8String text) {
            Option found = hasZone
                ? DateTimeUtils$.MODULE$.stringToTimestamp(text, UTC)
                : DateTimeUtils$.MODULE$.stringToTimestampWithoutTimeZone(text, true);
            return found.isEmpty() ? lost() : withinYears(((Long) found.get()).longValue());
        }

        private Object ofNumber(String written, String unit) {
            try {
                long count = Long.parseLong(written);
                if (unit.equals("seconds")) {
                    return withinYears(Math.multiplyExact(count, 1_000_000L));
                }
                if (unit.equals("millis")) {
                    return withinYears(Math.multiplyExact(count, 1_000L));
                }
                return withinYears(unit.equals("nanos") ? Math.floorDiv(count, 1_000L) : count);
            } catch (ArithmeticException error) {
                return lost();
            } catch (NumberFormatException error) {
                return lost(); // of nineteen digits not all are a long
            }
        }

        private Object withinYears(long micros) {
            return micros < FIRST || micros > LAST ? lost() : (Object) Long.valueOf(micros);
        }

        String name() {
            return hasZone ? "TIMESTAMP" : "TIMESTAMP_NTZ";
        }
    }
}
