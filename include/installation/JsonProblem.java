package lakemark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Why bytes are not one JSON object, as RFC 8259 says what that is and RFC 7493 (I-JSON) what of it everybody reads alike:
 * UTF-8 without halves of surrogate pairs, every name once, numbers within the range of a double, nothing behind it.
 *
 * Spark's own parser stops at the end of the first value, takes the last of two equal names, puts a replacement character
 * where bytes are no text, and takes 1e400 for infinity.
 */
public class JsonProblem implements UnboundFunction, ScalarFunction {

    public static final String NAME = "json_problem";

    private static final UTF8String NOT_UTF8 = UTF8String.fromString("not UTF-8");
    private static final UTF8String NO_OBJECT = UTF8String.fromString("not a JSON object");
    private static final UTF8String MORE = UTF8String.fromString("more than one JSON object");
    private static final UTF8String TWICE = UTF8String.fromString("a field stands twice in a JSON object");
    private static final UTF8String HALF = UTF8String.fromString("half of a surrogate pair in a JSON text");
    private static final UTF8String RANGE = UTF8String.fromString("a JSON number beyond the range of a double");
    private static final UTF8String TOO_MUCH = UTF8String.fromString("JSON that is nested too deeply, or a number too long");

    private static final JsonFactory FACTORY =
        JsonFactory.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build();
    private static final int EXPONENT_MAX = 400; // of a number that is worth computing
    private static final int DIGITS_MAX = 300; // of a number that no double is too small for

    public String name() {
        return NAME;
    }

    public String description() {
        return NAME + "(BINARY): why the bytes are not one JSON object, STRING; null: they are, or there are none";
    }

    public BoundFunction bind(StructType given) {
        return this;
    }

    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.BinaryType};
    }

    public DataType resultType() {
        return DataTypes.StringType;
    }

    /** What Spark calls, by this name and these types. */
    public static UTF8String invoke(byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        boolean isAscii = true;
        boolean hasEscapes = false;
        for (int n = 0; n < bytes.length; n++) {
            if (bytes[n] < 0) {
                isAscii = false;
            } else if (bytes[n] == 0) {
                return NO_OBJECT; // Jackson would take it for UTF-16
            } else if (bytes[n] == 'u' && n > 0 && bytes[n - 1] == '\\') {
                hasEscapes = true;
            }
        }
        if (!isAscii && !isUtf8(bytes)) {
            return NOT_UTF8;
        }
        try {
            JsonParser parser = FACTORY.createParser(bytes);
            try {
                return problem(parser, hasEscapes);
            } finally {
                parser.close();
            }
        } catch (StreamConstraintsException error) {
            return TOO_MUCH;
        } catch (IOException error) {
            return error.getMessage().startsWith("Duplicate field") ? TWICE : NO_OBJECT;
        }
    }

    private static boolean isUtf8(byte[] bytes) {
        try {
            StandardCharsets.UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT).decode(ByteBuffer.wrap(bytes));
            return true;
        } catch (CharacterCodingException error) {
            return false;
        }
    }

    private static UTF8String problem(JsonParser parser, boolean hasEscapes) throws IOException {
        if (parser.nextToken() != JsonToken.START_OBJECT) {
            return NO_OBJECT;
        }
        for (int depth = 1; depth > 0;) {
            JsonToken token = parser.nextToken();
            if (token == null) {
                return NO_OBJECT;
            }
            if (token.isStructStart()) {
                depth++;
            } else if (token.isStructEnd()) {
                depth--;
            } else if (token.isNumeric()) {
                if (isBeyondDouble(parser)) {
                    return RANGE;
                }
            } else if (hasEscapes && (token == JsonToken.VALUE_STRING || token == JsonToken.FIELD_NAME)) {
                if (hasHalfPair(parser.getText())) {
                    return HALF;
                }
            }
        }
        try {
            return parser.nextToken() == null ? null : MORE;
        } catch (IOException error) {
            return MORE;
        }
    }

    /** Numbers are not computed unless their digits are few: some take a computer days. */
    private static boolean isBeyondDouble(JsonParser parser) throws IOException {
        if (parser.currentToken() == JsonToken.VALUE_NUMBER_INT && parser.getTextLength() <= DIGITS_MAX) {
            return false;
        }
        String number = parser.getText();
        int exponent = Math.max(number.indexOf('e'), number.indexOf('E'));
        if (exponent < 0) {
            return number.length() > DIGITS_MAX && Double.isInfinite(Double.parseDouble(number));
        }
        int digits = number.length() - exponent - 1; // with a sign, perhaps
        return digits > 5
            || Math.abs(Integer.parseInt(number.substring(exponent + 1))) > EXPONENT_MAX
            || Double.isInfinite(Double.parseDouble(number));
    }

    private static boolean hasHalfPair(String text) {
        for (int n = 0; n < text.length(); n++) {
            char found = text.charAt(n);
            if (Character.isHighSurrogate(found) && n + 1 < text.length() && Character.isLowSurrogate(text.charAt(n + 1))) {
                n++;
            } else if (Character.isSurrogate(found)) {
                return true;
            }
        }
        return false;
    }
}
