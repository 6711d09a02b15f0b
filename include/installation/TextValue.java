package lakemark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * `text_value(STRING, STRUCT, STRING)`: a text as the type of a struct's only field; null: the text is none.
 *
 * The second argument is a null that has the type (whose comment `exact` says that nothing is rounded or cut to become
 * one of it); the third is what a number counts that stands for a moment: seconds,
 * millis, micros or nanos; null: nobody knows. Spark's own casts pass over white space and control characters, take
 * "10:20:30" for a moment of today, and compute `1e999999999` for hours.
 */
public class TextValue implements UnboundFunction {

    public static final String NAME = "text_value";

    public String name() {
        return NAME;
    }

    public String description() {
        return NAME + "(STRING, STRUCT, STRING): a text as the type of the struct's only field";
    }

    public BoundFunction bind(StructType given) {
        if (given.length() != 3 || !(given.fields()[1].dataType() instanceof StructType)) {
            throw new UnsupportedOperationException(description());
        }
        return new Bound((StructType) given.fields()[1].dataType());
    }

    /** For one type. */
    public static class Bound implements ScalarFunction {

        private final StructType asked;
        private transient TextValues type; // made anew in every process

        Bound(StructType asked) {
            this.asked = asked;
            type(); // raises
        }

        public String name() {
            return NAME;
        }

        public String canonicalName() {
            return "lakemark." + NAME + "(" + asked.sql() + ")";
        }

        public DataType[] inputTypes() {
            return new DataType[] {DataTypes.StringType, asked, DataTypes.StringType};
        }

        public DataType resultType() {
            return asked.fields()[0].dataType();
        }

        private TextValues type() {
            StructField field = asked.fields()[0];
            return TextValues.of(field.dataType(), TextValues.isExact(field));
        }

        /** What Spark calls, by this name and these types. */
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
