"""Two DELETEs of different rows of one file, for `./dev test-packages`.

The first is held inside its scan, by a function in its condition, until the second has committed. With
row-level concurrency off it must fail with Delta's conflict, with it on both must commit.

usage: race.py [SPARK CONF=VALUE ...]; run by spark-submit it has its session's confs from there.
"""
import os
import sys
import tempfile
import threading
import time

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

FLAG = "spark.databricks.delta.rowLevelConcurrency.enabled"


def hold(id, signal):
    """`id`, once the file `signal` is there; says that it waits with a file beside it."""
    open(signal + ".reached", "w").close()
    while not os.path.exists(signal):
        time.sleep(0.02)
    return id


def await_file(path, thread):
    while not os.path.exists(path):
        if not thread.is_alive():
            raise AssertionError("the held DELETE ended before it scanned a row")
        time.sleep(0.02)


def race(spark, flag):
    """The error of the held DELETE, None if it committed; rows left; read versions of the DELETEs."""
    spark.conf.set(FLAG, str(flag).lower())
    base = tempfile.mkdtemp(prefix="delta-rlc-")
    table, signal = f"delta.`{base}/t`", f"{base}/signal"
    (spark.range(0, 100, 1, 1).write.format("delta").option("delta.enableDeletionVectors", "true")
        .save(f"{base}/t"))
    errors = []

    def held():
        try:
            spark.sql(f"DELETE FROM {table} WHERE hold(id, '{signal}') = 1").collect()
        except Exception as e:  # whatever it is, the caller looks at it
            errors.append(str(e))

    loser = threading.Thread(target=held)
    loser.start()
    await_file(f"{signal}.reached", loser)
    spark.sql(f"DELETE FROM {table} WHERE id = 2").collect()
    open(signal, "w").close()
    loser.join()
    history = spark.sql(f"DESCRIBE HISTORY {table}").where("operation = 'DELETE'").collect()
    return (errors[0] if errors else None,
            sorted(set(range(100)) - {r.id for r in spark.table(table).collect()}),
            [h.readVersion for h in history])


def main():
    builder = SparkSession.builder
    for pair in sys.argv[1:]:
        builder = builder.config(*pair.split("=", 1))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    spark.udf.register("hold", hold, LongType())
    error, missing, reads = race(spark, False)
    assert error is not None and "CONCURRENT" in error.upper(), f"stock Delta did not conflict: {error}"
    assert (missing, reads) == ([2], [0]), (missing, reads)
    error, missing, reads = race(spark, True)
    assert error is None, error
    assert (missing, reads) == ([1, 2], [0, 0]), (missing, reads)
    print(f"RACE PASSED: Spark {spark.version}, both DELETEs committed", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
