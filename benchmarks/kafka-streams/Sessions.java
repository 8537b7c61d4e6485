// SPDX-License-Identifier: Apache-2.0

import java.time.Duration;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;

/** Counts records that follow each other with gaps of up to a minute, which may be late by a minute. Arguments: {@link Harness}'s. */
public final class Sessions {
    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[2], Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(1)))
            .count()
            .toStream((session, count) -> session.key() + "@" + session.window().start() + "-" + session.window().end())
            .mapValues(count -> count == null ? null : Long.toString(count))
            .to(args[3], Produced.with(Serdes.String(), Serdes.String()));
        Harness.run(builder, args);
    }

    private Sessions() {}
}
