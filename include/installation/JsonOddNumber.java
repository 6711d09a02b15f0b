package lakemark;

import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Whether anything in a JSON text may be a number that Spark's JSON parser reads otherwise where a text is to become a
 * decimal, or for hours: it leaves out commas, and computes all digits of `1e999999999`.
 */
public class JsonOddNumber implements UnboundFunction, ScalarFunction {

    public static final String NAME = "json_odd_number";
    private static final int EXPONENT = 4; // digits
    private static final int DIGITS = 400; // of a number that nobody needs

    public String name() {
        return NAME;
    }

    public String description() {
        return NAME + "(BINARY): whether a text in it may be a number of very many digits, or with commas, BOOLEAN";
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
        int digits = 0; // that come before
        for (int n = 0; n < bytes.length; n++) {
            byte found = bytes[n];
            boolean isBehindNumber = digits > 0 || (n > 0 && bytes[n - 1] == '.');
            if (found < 0 || (found == '\\' && n + 1 < bytes.length && bytes[n + 1] == 'u')) {
                return true; // other digits than ASCII's, or digits in disguise
            }
            if (found == ',' && isBehindNumber && n + 1 < bytes.length && isDigit(bytes[n + 1])) {
                return true;
            }
            if ((found | 0x20) == 'e' && isBehindNumber && hasLongExponent(bytes, n + 1)) {
                return true;
            }
            digits = isDigit(found) ? digits + 1 : 0;
            if (digits > DIGITS) {
                return true;
            }
        }
        return false;
    }

    private static boolean hasLongExponent(byte[] bytes, int from) {
        int first = from < bytes.length && (bytes[from] == '+' || bytes[from] == '-') ? from + 1 : from;
        for (int n = first; n < first + EXPONENT; n++) {
            if (n >= bytes.length || !isDigit(bytes[n])) {
                return false;
            }
        }
        return true;
    }

    private static boolean isDigit(byte character) {
        return character >= '0' && character <= '9';
    }
}
