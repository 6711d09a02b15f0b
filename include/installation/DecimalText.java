package lakemark;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * `decimal_text(BINARY, INT)`: a decimal as Kafka Connect writes it, an unscaled integer (big-endian, two's complement)
 * and a scale, as a text without an exponent; null: no DECIMAL of Spark has room for it.
 *
 * Spark has nothing that makes a number of such bytes.
 */
public class DecimalText implements UnboundFunction, ScalarFunction {

    public static final String NAME = "decimal_text";

    private static final int BYTES_MAX = 16;
    private static final int SCALE_MAX = 76; // no DECIMAL(38) needs more; a scale of billions would be a text of gigabytes

    public String name() {
        return NAME;
    }

    public String description() {
        return NAME + "(unscaled, scale): a decimal of its bytes, as a text; null: it is none";
    }

    public BoundFunction bind(StructType given) {
        return this;
    }

    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.BinaryType, DataTypes.IntegerType};
    }

    public DataType resultType() {
        return DataTypes.StringType;
    }

    /** What Spark calls, by this name and these types. */
    public static UTF8String invoke(byte[] unscaled, int scale) {
        boolean isKnown = unscaled != null && scale >= -SCALE_MAX && scale <= SCALE_MAX;
        if (!isKnown || unscaled.length == 0 || unscaled.length > BYTES_MAX) {
            return null;
        }
        return UTF8String.fromString(new BigDecimal(new BigInteger(unscaled), scale).toPlainString());
    }
}
