// SPDX-License-Identifier: Apache-2.0

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Joins rows of the table INPUT_TOPIC with the rows of INPUT_TOPIC-table that they name. Arguments: {@link Harness}'s. */
public final class ForeignKeyJoin {
    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> texts = Consumed.with(Serdes.String(), Serdes.String());
        KTable<String, String> table = builder.table(args[2] + "-table", texts);
        builder.table(args[2], texts)
            .join(table, name -> name, (name, row) -> row,
                Materialized.with(Serdes.String(), Serdes.String()))
            .toStream()
            .to(args[3], Produced.with(Serdes.String(), Serdes.String()));
        Harness.run(builder, args);
    }

    private ForeignKeyJoin() {}
}
