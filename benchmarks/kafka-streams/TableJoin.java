// SPDX-License-Identifier: Apache-2.0

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;

/** Joins each record of a stream with the row of a table, the topic INPUT_TOPIC-table. Arguments: {@link Harness}'s. */
public final class TableJoin {
    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> texts = Consumed.with(Serdes.String(), Serdes.String());
        KTable<String, String> table = builder.table(args[2] + "-table", texts);
        builder.stream(args[2], texts)
            .leftJoin(table, (value, row) -> value + "," + row, Joined.with(Serdes.String(), Serdes.String(), Serdes.String()))
            .to(args[3], Produced.with(Serdes.String(), Serdes.String()));
        Harness.run(builder, args);
    }

    private TableJoin() {}
}
