// SPDX-License-Identifier: Apache-2.0

import java.util.Arrays;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** The word count of Kafka Streams' own tutorial: a RocksDB store with changelog and cache. Arguments: {@link Harness}'s. */
public final class WordCount {
    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        count(builder.stream(args[2], Consumed.with(Serdes.ByteArray(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String())), args[3]);
        Harness.run(builder, args);
    }

    /** Writes the count of each word to a topic, as decimal text. */
    static void count(KGroupedStream<String, String> words, String topic) {
        words.count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("word-counts")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(topic, Produced.with(Serdes.String(), Serdes.String()));
    }

    private WordCount() {}
}
