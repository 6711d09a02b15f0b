package lakemark;

import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** A function of three arguments. The second one is a null: its type says what the result is to be. */
abstract class TypedFunction implements UnboundFunction {

    private final String name;
    private final String description;

    TypedFunction(String name, String description) {
        this.name = name;
        this.description = description;
    }

    public String name() {
        return name;
    }

    public String description() {
        return name + description;
    }

    public BoundFunction bind(StructType given) {
        BoundFunction found = given.length() == 3 ? bound(given.fields()[1].dataType()) : null;
        if (found == null) {
            throw new UnsupportedOperationException(description());
        }
        return found;
    }

    /** The function for one type; null: the type is not one of those that it takes. */
    abstract BoundFunction bound(DataType asked);

    /** The function for one type. A subclass adds the method `invoke`, which Spark calls. */
    abstract static class Bound implements ScalarFunction {

        private final String name;
        private final DataType first;
        private final DataType asked;

        Bound(String name, DataType first, DataType asked) {
            this.name = name;
            this.first = first;
            this.asked = asked;
        }

        public String name() {
            return name;
        }

        public String canonicalName() {
            return "lakemark." + name + "(" + asked.sql() + ")";
        }

        public DataType[] inputTypes() {
            return new DataType[] {first, asked, DataTypes.StringType};
        }
    }
}
