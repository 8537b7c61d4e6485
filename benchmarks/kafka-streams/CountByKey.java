// SPDX-License-Identifier: Apache-2.0

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;

/** Counts records by the key that their topic is partitioned by: no repartition topic. Arguments: {@link Harness}'s. */
public final class CountByKey {
    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        WordCount.count(builder.stream(args[2], Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String())), args[3]);
        Harness.run(builder, args);
    }

    private CountByKey() {}
}
