package lakemark;

import com.fasterxml.jackson.core.JsonToken;
import java.util.Base64;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads a value of JSON as a declared type, by the rules of docs/semantics.md. Every type has a class with `read`. */
abstract class JsonValues {

    /** Stands in the place of a value that does not fit its type. */
    static class Lost {

        final String path; // within the value, with a dot before every name
        final String why;

        Lost(String path, String why) {
            this.path = path;
            this.why = why;
        }
    }

    /** Reads the value that begins at the text's token, to its last token. Never null: the caller takes care of null. */
    abstract Object read(JsonText text, UTF8String unit) throws JsonText.Problem;

    static JsonValues of(DataType type) {
        return of(type, false);
    }

    /** Throws IllegalArgumentException: JSON has no such value. */
    static JsonValues of(DataType type, boolean isExact) {
        if (type instanceof StructType) {
            return new JsonNested.Struct((StructType) type);
        }
        if (type instanceof ArrayType) {
            return new JsonNested.Items(of(((ArrayType) type).elementType()));
        }
        if (type instanceof MapType) {
            return new JsonNested.Entries(of(((MapType) type).keyType()), of(((MapType) type).valueType()));
        }
        if (type instanceof VariantType) {
            return new Json();
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
        TextValues written = TextValues.of(type, isExact);
        if (written instanceof TextValues.Whole) {
            return new Whole((TextValues.Whole) written);
        }
        if (written instanceof TextValues.Real) {
            return new Real((TextValues.Real) written);
        }
        return new Written(written);
    }

    /** The type, for people. */
    abstract String name();

    /** The value that was read does not fit the type. */
    Object lost() {
        return new Lost("", "is no " + name());
    }

    /** Skips the value that begins here: it does not fit the type. */
    Object passedOver(JsonText text) throws JsonText.Problem {
        text.skip();
        return lost();
    }

    /** The whole value is lost. Args: lost: one of its items, or of its values. */
    static Object within(Object lost) {
        return new Lost("[]" + ((Lost) lost).path, ((Lost) lost).why);
    }

    static Object readOrNull(JsonValues type, JsonText text, UTF8String unit) throws JsonText.Problem {
        return text.token() == JsonToken.VALUE_NULL ? null : type.read(text, unit);
    }

    /** A text, or the JSON of any other value. */
    static class Text extends JsonValues {

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            return UTF8String.fromString(text.token() == JsonToken.VALUE_STRING ? text.text() : text.json());
        }

        String name() {
            return "STRING";
        }
    }

    /** Stands for VARIANT: the JSON of a value as it is written; for a text, a quotation mark and the text. */
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

        private final TextValues.Whole type;

        Whole(TextValues.Whole type) {
            this.type = type;
        }

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            if (!text.isLong()) {
                return passedOver(text);
            }
            Object value = type.fitting(text.asLong());
            return value == null ? lost() : value;
        }

        String name() {
            return type.name();
        }
    }

    /** FLOAT and DOUBLE: numbers, and the texts for infinity and "not a number". */
    static class Real extends JsonValues {

        private final TextValues.Real type;

        Real(TextValues.Real type) {
            this.type = type;
        }

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            Object value = null;
            if (text.token().isNumeric()) {
                value = type.fitting(Double.parseDouble(text.text()));
            } else if (text.token() == JsonToken.VALUE_STRING) {
                value = type.notFinite(text.text());
            } else {
                return passedOver(text);
            }
            return value == null ? lost() : value;
        }

        String name() {
            return type.name();
        }
    }

    /** DECIMAL, DATE and the timestamps: a number or a text, read from the way it is written. */
    static class Written extends JsonValues {

        private final TextValues type;

        Written(TextValues type) {
            this.type = type;
        }

        Object read(JsonText text, UTF8String unit) throws JsonText.Problem {
            if (!text.token().isNumeric() && text.token() != JsonToken.VALUE_STRING) {
                return passedOver(text);
            }
            Object value = type.of(text.text(), unit);
            if (value != null) {
                return value;
            }
            boolean isUncounted = unit == null && type instanceof TextTimes.Moment && TextTimes.Moment.isCount(text.text());
            return isUncounted
                ? new Lost("", "is a number, and source.timestamps does not say what it counts")
                : lost();
        }

        String name() {
            return type.name();
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
}
