package lakemark;

import com.fasterxml.jackson.core.JsonToken;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.types.UTF8String;

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

    /** The value whose first token is the text's; to its last token. Never null: null is for the caller. */
    abstract Object read(JsonText text, UTF8String unit) throws JsonText.Problem;

    static JsonValues of(DataType type) {
        return of(type, false);
    }

    /** Raises IllegalArgumentException: there is no such value in JSON. */
    private static JsonValues of(DataType type, boolean isExact) {
        if (type instanceof StructType) {
            return new Struct((StructType) type);
        }
        if (type instanceof ArrayType) {
            return new Items(of(((ArrayType) type).elementType()));
        }
        if (type instanceof MapType) {
            return new Entries(of(((MapType) type).keyType()), of(((MapType) type).valueType()));
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
                fields[n] = of(field.dataType(), TextValues.isExact(field));
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

    /** FLOAT and DOUBLE: numbers, and the texts that stand for what is none. */
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

    /** DECIMAL, DATE and the timestamps: what a number or a text is by the way it is written. */
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
            boolean isUncounted = unit == null && type instanceof TextValues.Moment && TextValues.Moment.isCount(text.text());
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
