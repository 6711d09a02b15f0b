package lakemark;

import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Whether anything in a text looks like a number with an exponent of four digits or more.
 *
 * As a decimal, `1e999999999` has a billion digits, and Spark's JSON parser computes them all if a text is to be one.
 */
public class JsonLargeExponent implements UnboundFunction, ScalarFunction {

    public static final String NAME = "json_large_exponent";
    private static final int DIGITS = 4;

    public String name() {
        return NAME;
    }

    public String description() {
        return NAME + "(BINARY): whether a number in it may have very many digits, BOOLEAN";
    }

    public BoundFunction bind(StructType given) {
        return this;
    }

    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.BinaryType};
    }

    public DataType resultType() {
        return DataTypes.BooleanType;
    }

    /** What Spark calls, by this name and these types. */
    public static boolean invoke(byte[] bytes) {
        if (bytes == null) {
            return false;
        }
        for (int n = 1; n + DIGITS < bytes.length; n++) {
            if ((bytes[n] | 0x20) == 'e' && (isDigit(bytes[n - 1]) || bytes[n - 1] == '.')) {
                int first = bytes[n + 1] == '+' || bytes[n + 1] == '-' ? n + 2 : n + 1;
                int next = first;
                while (next < bytes.length && isDigit(bytes[next])) {
                    next++;
                }
                if (next - first >= DIGITS) {
                    return true;
                }
            }
        }
        return false;
    }

    private static boolean isDigit(byte character) {
        return character >= '0' && character <= '9';
    }
}
