package lakemark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * `text_value(STRING, STRUCT, STRING)`: a text as the type of a struct's only field; null: the text does not fit.
 *
 * The second argument is a null that has the type. The comment `exact` at its field says that no value may be rounded or
 * cut. The third argument says what a number counts in the place of a timestamp: seconds, millis, micros or nanos; null:
 * unknown. Spark's own casts ignore white space and control characters, take "10:20:30" for a time of today, and compute
 * `1e999999999` for hours.
 */
public class TextValue extends TypedFunction {

    public static final String NAME = "text_value";

    TextValue() {
        super(NAME, "(STRING, STRUCT, STRING): a text as the type of the struct's only field");
    }

    BoundFunction bound(DataType asked) {
        return asked instanceof StructType ? new ForType((StructType) asked) : null;
    }

    /** For one type. */
    public static class ForType extends TypedFunction.Bound {

        private final StructType asked;
        private transient TextValues type; // made again in every process

        ForType(StructType asked) {
            super(NAME, DataTypes.StringType, asked);
            this.asked = asked;
            type(); // throws if it cannot read the type
        }

        public DataType resultType() {
            return asked.fields()[0].dataType();
        }

        private TextValues type() {
            StructField field = asked.fields()[0];
            return TextValues.of(field.dataType(), TextValues.isExact(field));
        }

        /** Spark calls this by its name and types. */
        public Object invoke(UTF8String text, InternalRow asked, UTF8String unit) {
            if (text == null) {
                return null;
            }
            if (type == null) {
                type = type();
            }
            return type.of(text.toString(), unit);
        }
    }
}
