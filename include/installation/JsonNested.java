package lakemark;

import com.fasterxml.jackson.core.JsonToken;
import java.util.ArrayList;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads objects and arrays of JSON as STRUCT, ARRAY and MAP: a class for each. */
class JsonNested {

    private JsonNested() {}

    /** Takes fields by name, and skips fields that the type does not name. */
    static class Struct extends JsonValues {

        private final StructType type;
        private final JsonValues[] fields;
        private final HashMap places = new HashMap(); // name -> Integer

        Struct(StructType type) {
            this.type = type;
            fields = new JsonValues[type.length()];
            for (int n = 0; n < fields.length; n++) {
                StructField field = type.fields()[n];
                fields[n] = JsonValues.of(field.dataType(), TextValues.isExact(field));
                places.put(field.name(), Integer.valueOf(n));
            }
        }

        /** The fields' values, some of them `Lost`; null: it is no object, and was read to its end. */
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

        /** Puts null in the place of lost values. Returns the first of them, its path with the field's name; null: none. */
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
            if (!(names instanceof JsonValues.Text)) {
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
}
