package lakemark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import java.io.IOException;
import java.io.StringWriter;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The tokens of bytes that are one JSON object (RFC 8259), in the form that everybody reads alike (RFC 7493, I-JSON):
 * UTF-8 without halves of surrogate pairs, every name once, numbers within the range of a double, and nothing after it.
 * All other bytes end in a `Problem`, at the latest at `end`.
 *
 * Code that reads a value goes on to the value's last token. It must not use Jackson's own `skipChildren`, which checks
 * nothing.
 */
class JsonText {

    /** Why bytes are not one JSON object. */
    static class Problem extends IOException {

        Problem(String why) {
            super(why);
        }

        public Throwable fillInStackTrace() {
            return this; // it is about a record, not about a place in this program; and there may be millions
        }
    }

    private static final String NO_OBJECT = "not a JSON object";
    private static final String TWICE = "a field stands twice in a JSON object";
    private static final String TOO_MUCH = "JSON that is nested too deeply, or a number, a name or a text too long";

    // Names whose hashes collide are slow, but no error. Names come from strangers, so they are not kept for good.
    private static final JsonFactory FACTORY =
        ((JsonFactoryBuilder) new JsonFactoryBuilder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION))
            .disable(JsonFactory.Feature.FAIL_ON_SYMBOL_HASH_OVERFLOW)
            .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
            .build();
    private static final int EXPONENT_DIGITS_MAX = 3;
    private static final int EXPONENT_MAX = 400; // a number with a larger one is not worth computing
    private static final int DIGITS_MAX = 300; // a number with no more digits is within the range of a double

    private final byte[] bytes;
    private final JsonParser parser;
    private final boolean hasEscapes;

    private JsonText(byte[] bytes, JsonParser parser, boolean hasEscapes) {
        this.bytes = bytes;
        this.parser = parser;
        this.hasEscapes = hasEscapes;
    }

    /** At the object's first token. */
    static JsonText of(byte[] bytes) throws Problem {
        boolean isAscii = true;
        boolean hasEscapes = false;
        for (int n = 0; n < bytes.length; n++) {
            byte found = bytes[n];
            if (found <= 0) {
                if (found == 0) {
                    throw new Problem(NO_OBJECT); // Jackson would take it for UTF-16
                }
                isAscii = false;
            } else if (found == '\\') {
                hasEscapes = true;
            }
        }
        if (!isAscii && !UTF8String.fromBytes(bytes).isValid()) {
            throw new Problem("not UTF-8");
        }
        if (bytes.length == 0 || bytes[0] == (byte) 0xEF) { // Jackson would take it for a byte order mark
            throw new Problem(NO_OBJECT);
        }
        JsonParser parser = null;
        try {
            parser = FACTORY.createParser(bytes);
        } catch (IOException error) {
            throw new Problem(NO_OBJECT);
        }
        JsonText text = new JsonText(bytes, parser, hasEscapes);
        if (text.next() != JsonToken.START_OBJECT) {
            throw new Problem(NO_OBJECT);
        }
        return text;
    }

    /** Args: at the object's last token. */
    void end() throws Problem {
        JsonToken more = null;
        try {
            more = parser.nextToken();
        } catch (IOException error) {
            throw new Problem("more than one JSON object");
        }
        if (more != null) {
            throw new Problem("more than one JSON object");
        }
    }

    void close() {
        try {
            parser.close();
        } catch (IOException error) {
            throw new IllegalStateException(error); // it cannot happen with bytes in memory
        }
    }

    JsonToken next() throws Problem {
        try {
            JsonToken token = parser.nextToken();
            if (token == null) {
                throw new Problem(NO_OBJECT);
            }
            if (token.isNumeric()) {
                if (isBeyondDouble()) {
                    throw new Problem("a JSON number beyond the range of a double");
                }
            } else if (hasEscapes && (token == JsonToken.VALUE_STRING || token == JsonToken.FIELD_NAME)) {
                if (hasHalfPair(parser.getText())) {
                    throw new Problem("half of a surrogate pair in a JSON text");
                }
            }
            return token;
        } catch (IOException error) {
            throw problem(error);
        }
    }

    JsonToken token() {
        return parser.currentToken();
    }

    /** The name of a field, the text of a string, a number as it is written. */
    String text() throws Problem {
        try {
            return parser.getText();
        } catch (IOException error) {
            throw problem(error);
        }
    }

    boolean isLong() throws Problem {
        try {
            if (parser.currentToken() != JsonToken.VALUE_NUMBER_INT) {
                return false;
            }
            JsonParser.NumberType type = parser.getNumberType();
            return type == JsonParser.NumberType.INT || type == JsonParser.NumberType.LONG;
        } catch (IOException error) {
            throw problem(error);
        }
    }

    long asLong() throws Problem {
        try {
            return parser.getLongValue();
        } catch (IOException error) {
            throw problem(error);
        }
    }

    /** Goes to the last token of the value that begins here. */
    void skip() throws Problem {
        for (int depth = depthOf(parser.currentToken()); depth > 0;) {
            depth += depthOf(next());
        }
    }

    /** The bytes of the value that begins here and is no string. Goes to its last token. */
    UTF8String slice() throws Problem {
        int from = (int) parser.currentTokenLocation().getByteOffset();
        skip();
        return UTF8String.fromBytes(bytes, from, (int) parser.currentLocation().getByteOffset() - from);
    }

    /** The value that begins here as JSON without spaces, numbers as they are written. Goes to its last token. */
    String json() throws Problem {
        StringWriter written = new StringWriter();
        try {
            JsonGenerator generator = FACTORY.createGenerator(written);
            write(generator);
            for (int depth = depthOf(parser.currentToken()); depth > 0;) {
                depth += depthOf(next());
                write(generator);
            }
            generator.close();
        } catch (IOException error) {
            throw problem(error);
        }
        return written.toString();
    }

    private void write(JsonGenerator generator) throws IOException {
        if (parser.currentToken().isNumeric()) {
            generator.writeNumber(parser.getText()); // Jackson's own copy would convert the number to a double
        } else {
            generator.copyCurrentEvent(parser);
        }
    }

    private static int depthOf(JsonToken token) {
        return token.isStructStart() ? 1 : token.isStructEnd() ? -1 : 0;
    }

    private static Problem problem(IOException error) {
        if (error instanceof Problem) {
            return (Problem) error;
        }
        if (error instanceof StreamConstraintsException) {
            return new Problem(TOO_MUCH);
        }
        return new Problem(error.getMessage().startsWith("Duplicate") ? TWICE : NO_OBJECT);
    }

    /** Whether a number is out of the range of a double. It computes only numbers of few digits: others take days. */
    private boolean isBeyondDouble() throws IOException {
        if (parser.currentToken() == JsonToken.VALUE_NUMBER_INT && parser.getTextLength() <= DIGITS_MAX) {
            return false;
        }
        char[] characters = parser.getTextCharacters();
        int from = parser.getTextOffset();
        int to = from + parser.getTextLength();
        int exponent = from;
        while (exponent < to && (characters[exponent] | 0x20) != 'e') {
            exponent++;
        }
        if (exponent == to) {
            return to - from > DIGITS_MAX && Double.isInfinite(Double.parseDouble(new String(characters, from, to - from)));
        }
        int digit = exponent + 1;
        while (digit < to - 1 && (characters[digit] < '1' || characters[digit] > '9')) {
            digit++; // the exponent's sign, and zeros
        }
        return to - digit > EXPONENT_DIGITS_MAX
            || Integer.parseInt(new String(characters, digit, to - digit)) > EXPONENT_MAX
            || Double.isInfinite(Double.parseDouble(new String(characters, from, to - from)));
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
