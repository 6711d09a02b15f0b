package lakemark;

import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Lakemark's SQL functions as a Spark catalog: `lakemark.json_row` and others. */
public class Functions implements FunctionCatalog {

    private String name;

    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
    }

    public String name() {
        return name;
    }

    public Identifier[] listFunctions(String[] namespace) {
        return new Identifier[0]; // they are for Lakemark's own plans, and nobody browses them
    }

    public UnboundFunction loadFunction(Identifier asked) throws NoSuchFunctionException {
        if (asked.namespace().length > 0) {
            throw new NoSuchFunctionException(asked);
        }
        switch (asked.name()) {
            case JsonRow.NAME:
                return new JsonRow();
            case TextValue.NAME:
                return new TextValue();
            case DecimalText.NAME:
                return new DecimalText();
            case CsvFields.NAME:
                return new CsvFields();
            default:
                throw new NoSuchFunctionException(asked);
        }
    }
}
