package lakemark;

import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A function whose types are always the same. A subclass adds the static method `invoke`, which Spark calls. */
abstract class PlainFunction implements UnboundFunction, ScalarFunction {

    private final String name;
    private final String description;
    private final DataType[] inputTypes;
    private final DataType resultType;

    PlainFunction(String name, String description, DataType[] inputTypes, DataType resultType) {
        this.name = name;
        this.description = description;
        this.inputTypes = inputTypes;
        this.resultType = resultType;
    }

    public String name() {
        return name;
    }

    public String description() {
        return name + description;
    }

    public BoundFunction bind(StructType given) {
        return this;
    }

    public DataType[] inputTypes() {
        return inputTypes;
    }

    public DataType resultType() {
        return resultType;
    }
}
