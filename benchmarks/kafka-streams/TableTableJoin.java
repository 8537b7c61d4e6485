// SPDX-License-Identifier: Apache-2.0

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;

/** Joins rows of the tables INPUT_TOPIC and INPUT_TOPIC-table with equal keys: the sum of both numbers. Arguments: {@link Harness}'s. */
public final class TableTableJoin {
    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> texts = Consumed.with(Serdes.String(), Serdes.String());
        KTable<String, String> table = builder.table(args[2] + "-table", texts);
        builder.table(args[2], texts)
            .join(table, (one, two) -> Long.toString(Long.parseLong(one) + Long.parseLong(two)))
            .toStream()
            .to(args[3], Produced.with(Serdes.String(), Serdes.String()));
        Harness.run(builder, args);
    }

    private TableTableJoin() {}
}
