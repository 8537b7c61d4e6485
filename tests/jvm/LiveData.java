// SPDX-License-Identifier: Apache-2.0

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/**
 * Keeps so many megabytes, then makes and throws away so many, each of which lives until 20 more have been made. Tells how
 * often the old generation was collected meanwhile, and how often the young one alone.
 */
class LiveData {
    private static final int BLOCK = 64 << 10;
    private static final int BLOCKS_OF_A_MB = 16;
    private static final int LIVE_BLOCKS = 20 * BLOCKS_OF_A_MB;

    public static void main(String[] args) {
        List<byte[]> kept = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[0]) * BLOCKS_OF_A_MB; i++) kept.add(new byte[BLOCK]);
        long old = collections("MarkSweep"), young = collections("Scavenge");
        ArrayDeque<byte[]> living = new ArrayDeque<>();
        for (int i = 0; i < Integer.parseInt(args[1]) * BLOCKS_OF_A_MB; i++) {
            living.add(new byte[BLOCK]);
            if (living.size() > LIVE_BLOCKS) living.remove();
        }
        System.out.println("old " + (collections("MarkSweep") - old));
        System.out.println("young " + (collections("Scavenge") - young));
        if (kept.isEmpty()) throw new IllegalArgumentException("nothing was kept");
    }

    private static long collections(String collector) {
        return ManagementFactory.getGarbageCollectorMXBeans().stream()
            .filter(bean -> bean.getName().contains(collector)).mapToLong(GarbageCollectorMXBean::getCollectionCount).sum();
    }
}
