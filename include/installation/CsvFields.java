package lakemark;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * `csv_fields(STRING, STRING, STRING, STRING)`: the fields of a line of CSV; null: its quotes are broken, or it is more
 * than one line. The delimiter stands between the fields, and a field may be quoted.
 *
 * A quote within quotes is doubled (RFC 4180) or stands after the escape character. Spark's parser knows only one of the
 * two. It also adds what follows a closing quote to the field, and takes the end of a line for the end of a field; and a
 * line with more fields than it expects fails the whole job.
 */
public class CsvFields extends PlainFunction {

    public static final String NAME = "csv_fields";

    CsvFields() {
        super(
            NAME,
            "(line, delimiter, quote, escape): the fields of a line of CSV; null: it is no such line",
            new DataType[] {DataTypes.StringType, DataTypes.StringType, DataTypes.StringType, DataTypes.StringType},
            DataTypes.createArrayType(DataTypes.StringType));
    }

    /** Spark calls this by its name and types. All arguments but the line are one character long. */
    public static ArrayData invoke(UTF8String line, UTF8String delimiter, UTF8String quote, UTF8String escape) {
        if (line == null) {
            return null;
        }
        String text = line.toString();
        String between = delimiter.toString();
        String around = quote.toString();
        String before = escape.toString();
        ArrayList found = new ArrayList();
        int at = 0;
        while (true) {
            StringBuilder field = new StringBuilder();
            at = text.startsWith(around, at)
                ? quoted(text, at + around.length(), around, before, field)
                : bare(text, at, between, field);
            if (at < 0) {
                return null;
            }
            found.add(UTF8String.fromString(field.toString()));
            if (at == text.length()) {
                return new GenericArrayData(found.toArray());
            }
            if (!text.startsWith(between, at)) {
                return null;
            }
            at += between.length();
        }
    }

    /** Where the field ends, after its closing quote; -1: nowhere. Args: at: after its first quote. */
    private static int quoted(String text, int at, String quote, String escape, StringBuilder field) {
        while (at < text.length()) {
            if (text.startsWith(escape, at) && isSpecial(text, at + escape.length(), quote, escape)) {
                at += escape.length();
            } else if (text.startsWith(quote, at)) {
                at += quote.length();
                if (!text.startsWith(quote, at)) {
                    return at;
                }
            }
            field.append(text.charAt(at));
            at++;
        }
        return -1;
    }

    private static boolean isSpecial(String text, int at, String quote, String escape) {
        return text.startsWith(quote, at) || text.startsWith(escape, at);
    }

    /** Where the field ends; -1: the line ends within it. */
    private static int bare(String text, int at, String delimiter, StringBuilder field) {
        int end = text.indexOf(delimiter, at);
        end = end < 0 ? text.length() : end;
        field.append(text, at, end);
        return field.indexOf("\n") < 0 && field.indexOf("\r") < 0 ? end : -1;
    }
}
