package lakemark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * `json_row(BINARY, STRUCT or MAP, STRING)`: the fields of a JSON object as a struct of declared types, or as a map.
 *
 * The second argument is a null that has the type. VARIANT in it stands for a STRING: the JSON of a value as it is
 * written; for a text, a quotation mark and the text. A field with the comment `exact` takes no value that would have to
 * be rounded or cut. The third argument says what a number counts in the place of a timestamp: seconds, millis, micros
 * or nanos; null: unknown.
 *
 * The result is `STRUCT<problem: STRING, lost: STRING, row: ...>`. `problem` says why the bytes are not one JSON object.
 * `lost` says why a field that the object has is null (the first such field). `row` has the fields. The result is null
 * if there are no bytes.
 *
 * Spark's own `from_json` stops at the end of the first value, takes the last of two equal names, puts a replacement
 * character where bytes are no text, takes 1e400 for infinity and 200 for the TINYINT -56, drops commas from decimals,
 * computes `1e999999999` for hours, guesses the units of timestamps, and converts numbers to a double and back where a
 * text is declared.
 */
public class JsonRow extends TypedFunction {

    public static final String NAME = "json_row";

    JsonRow() {
        super(NAME, "(BINARY, STRUCT or MAP, STRING): the fields of a JSON object, by the type of the second argument");
    }

    BoundFunction bound(DataType asked) {
        return new ForType(asked);
    }

    /** For one type. */
    public static class ForType extends TypedFunction.Bound {

        private final DataType asked;
        private transient JsonValues values; // made again in every process

        ForType(DataType asked) {
            super(NAME, DataTypes.BinaryType, asked);
            this.asked = asked;
            JsonValues.of(asked); // throws if it cannot read the type
        }

        public DataType resultType() {
            return new StructType()
                .add("problem", DataTypes.StringType)
                .add("lost", DataTypes.StringType)
                .add("row", given(asked));
        }

        /** Spark calls this by its name and types. */
        public InternalRow invoke(byte[] bytes, InternalRow asked, UTF8String unit) {
            return read(bytes, unit);
        }

        public InternalRow invoke(byte[] bytes, MapData asked, UTF8String unit) {
            return read(bytes, unit);
        }

        private InternalRow read(byte[] bytes, UTF8String unit) {
            if (bytes == null) {
                return null;
            }
            if (values == null) {
                values = JsonValues.of(asked);
            }
            JsonText text = null;
            try {
                text = JsonText.of(bytes);
                String lost = null;
                Object row = null;
                if (values instanceof JsonNested.Struct) {
                    JsonNested.Struct struct = (JsonNested.Struct) values;
                    Object[] fields = struct.values(text, unit);
                    JsonValues.Lost first = struct.settled(fields);
                    lost = first == null ? null : "column " + first.path.substring(1) + " " + first.why;
                    row = new GenericInternalRow(fields);
                } else {
                    row = values.read(text, unit);
                    if (row instanceof JsonValues.Lost) {
                        lost = "the object " + ((JsonValues.Lost) row).why;
                        row = null;
                    }
                }
                text.end();
                return result(null, lost, row);
            } catch (JsonText.Problem problem) {
                return result(problem.getMessage(), null, null);
            } finally {
                if (text != null) {
                    text.close();
                }
            }
        }

        private static InternalRow result(String problem, String lost, Object row) {
            return new GenericInternalRow(new Object[] {UTF8String.fromString(problem), UTF8String.fromString(lost), row});
        }

        /** The type of the result where this type is asked for. */
        private static DataType given(DataType asked) {
            if (asked instanceof VariantType) {
                return DataTypes.StringType;
            }
            if (asked instanceof ArrayType) {
                return DataTypes.createArrayType(given(((ArrayType) asked).elementType()));
            }
            if (asked instanceof MapType) {
                return DataTypes.createMapType(((MapType) asked).keyType(), given(((MapType) asked).valueType()));
            }
            if (asked instanceof StructType) {
                StructType found = new StructType();
                for (int n = 0; n < ((StructType) asked).length(); n++) {
                    StructField field = ((StructType) asked).fields()[n];
                    found = found.add(field.name(), given(field.dataType()));
                }
                return found;
            }
            return asked;
        }
    }
}
