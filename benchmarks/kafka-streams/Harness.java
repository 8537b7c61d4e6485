// SPDX-License-Identifier: Apache-2.0

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * Runs a topology of Kafka Streams under exactly_once_v2, with all settings at their defaults but the guarantee and the number
 * of threads.
 *
 * Arguments: BOOTSTRAP APPLICATION_ID INPUT_TOPIC OUTPUT_TOPIC STATE_DIR THREADS. Prints "restored SECONDS RECORDS" on
 * stdout when all restores that were under way have ended. Ends on SIGTERM.
 */
final class Harness {
    static void run(StreamsBuilder builder, String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args[5]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put("auto.offset.reset", "earliest");

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setGlobalStateRestoreListener(new Restores());
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            if (now == KafkaStreams.State.ERROR) ended.countDown();
        });
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                .StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(30));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    /** Measures the time from the first restore's start to the last one's end. */
    private static final class Restores implements StateRestoreListener {
        private final AtomicInteger running = new AtomicInteger();
        private final AtomicLong records = new AtomicLong();
        private volatile long started;

        @Override public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
            if (started == 0) started = System.nanoTime();
            running.incrementAndGet();
        }

        @Override public void onBatchRestored(TopicPartition partition, String store, long end, long count) {}

        @Override public void onRestoreEnd(TopicPartition partition, String store, long total) {
            long all = records.addAndGet(total);
            if (running.decrementAndGet() == 0) {
                System.out.println("restored " + (System.nanoTime() - started) / 1e9 + " " + all);
            }
        }
    }

    private Harness() {}
}
