package lakemark;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * `decimal_text(BINARY, INT)`: the text, without an exponent, of a decimal as Kafka Connect writes it: an unscaled
 * integer (big-endian, two's complement) and a scale. Null: it fits no DECIMAL of Spark.
 *
 * Spark itself cannot make a number from such bytes.
 */
public class DecimalText extends PlainFunction {

    public static final String NAME = "decimal_text";

    private static final int BYTES_MAX = 16;
    private static final int SCALE_MAX = 76; // no DECIMAL(38) needs more; a scale of billions would make a text of gigabytes

    DecimalText() {
        super(
            NAME,
            "(unscaled, scale): the text of a decimal from its bytes; null: it is no decimal",
            new DataType[] {DataTypes.BinaryType, DataTypes.IntegerType},
            DataTypes.StringType);
    }

    /** Spark calls this by its name and types. */
    public static UTF8String invoke(byte[] unscaled, int scale) {
        boolean isKnown = unscaled != null && scale >= -SCALE_MAX && scale <= SCALE_MAX;
        if (!isKnown || unscaled.length == 0 || unscaled.length > BYTES_MAX) {
            return null;
        }
        return UTF8String.fromString(new BigDecimal(new BigInteger(unscaled), scale).toPlainString());
    }
}
