// SPDX-License-Identifier: Apache-2.0

import java.time.Duration;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/** Joins each record of a stream with those of another, the topic INPUT_TOPIC-table, within an hour. Arguments: {@link Harness}'s. */
public final class StreamJoin {
    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> texts = Consumed.with(Serdes.String(), Serdes.String());
        KStream<String, String> others = builder.stream(args[2] + "-table", texts);
        builder.stream(args[2], texts)
            .join(others, (one, other) -> one + "," + other,
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofHours(1), Duration.ofMinutes(1)),
                StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()))
            .to(args[3], Produced.with(Serdes.String(), Serdes.String()));
        Harness.run(builder, args);
    }

    private StreamJoin() {}
}
