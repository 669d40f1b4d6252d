#!/usr/bin/env python3
"""Every way in from outside the JVM: a conflicting pair commits, and on stock Delta it does not.

Usage: ways_in.py JAR_DIR [PART...]
JAR_DIR holds delta-rlc, Delta and winner.jar (WinnerLogStore); parts are classic, connect, thrift,
restart and submit, all by default.

Each race is decided by WinnerLogStore: while the statement under test commits, a DELETE of another
row of the same file commits first, in the same JVM. So nothing depends on time.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

FLAG = "spark.databricks.delta.rowLevelConcurrency.enabled"
PARTS = ["classic", "connect", "thrift", "restart", "submit"]
ROOT = Path(tempfile.mkdtemp(prefix="rlc-ways-"))
results = []


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


CONNECT_PORT, THRIFT_PORT = free_port(), free_port()


def jars(jar_dir, separator):
    return separator.join(str(jar) for jar in sorted(Path(jar_dir).glob("*.jar")))


def options():
    """What the quick start says, a log store that makes statements lose, and a small session."""
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
                                "io.github.deltarlc.RowLevelConcurrencyExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        FLAG: "true",
        "spark.delta.logStore.file.impl": "org.apache.spark.sql.delta.rlc.harness.WinnerLogStore",
        "spark.databricks.delta.commitLock.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(ROOT / "warehouse"),
        "spark.ui.port": "0",
        "spark.metrics.conf.*.sink.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
    }


def server_options(jar_dir):
    """For a driver that is a Spark Connect and a Thrift server too."""
    return {
        # A Thrift server started inside another driver does not look into spark.jars.
        "spark.driver.extraClassPath": jars(jar_dir, ":"),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(CONNECT_PORT),
        "spark.hadoop.hive.server2.thrift.port": str(THRIFT_PORT),
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={ROOT}/metastore;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={ROOT}",
    }


def start(more):
    builder = SparkSession.builder.master("local[2]").appName("ways-in")
    for key, value in {**options(), **more}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Table:
    """Ten rows, id 0 to 9, in one file; the next commit loses to a DELETE of row 2."""

    count = 0

    def __init__(self, spark):
        Table.count += 1
        self.path = ROOT / f"t{Table.count}"
        self.name = f"delta.`{self.path}`"
        self.spark = spark
        (spark.range(0, 10, 1, 1).withColumn("v", F.col("id") * 10).write.format("delta")
            .option("delta.enableDeletionVectors", "true").save(str(self.path)))
        (self.path / "_winner.sql").write_text(f"DELETE FROM {self.name} WHERE id = 2")

    def rows(self):
        return {row.id: row.v for row in self.spark.read.format("delta").load(str(self.path)).collect()}


def metric(spark, name):
    """A counter as Spark's own servlet shows it."""
    with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/metrics/json/") as page:
        counters = json.load(page)["counters"]
    found = [c["count"] for key, c in counters.items() if key.endswith(f".driver.rowLevelConcurrency.{name}")]
    assert len(found) == 1, f"{name}: {found} in {sorted(counters)}"
    return found[0]


def check(name, body):
    try:
        note = body()
        results.append(True)
        print(f"ok      {name}{': ' + note if note else ''}", flush=True)
    except Exception as e:  # noqa: BLE001 a failed way is a result like another
        results.append(False)
        print(f"FAILED  {name}: {type(e).__name__}: {e}", flush=True)


def way(spark, name, statement, set_flag, left=(0, 3, 4, 5, 6, 7, 8, 9), updated=None, alone=True):
    """
    `statement` takes a table and leaves the rows `left` and `updated` of it, in a session where
    `set_flag` has effect; `alone` when it is one statement, which on stock Delta does nothing then.
    """
    def both_commit():
        set_flag("true")
        table, before = Table(spark), metric(spark, "resolved")
        statement(table)
        expected = {i: i * 10 for i in left} | (updated or {})
        assert (table.path / "_winner.done").exists(), "the winner never ran"
        assert table.rows() == expected, f"{table.rows()}, not {expected}"
        merged = metric(spark, "resolved") - before
        assert merged >= 1, "no resolution was counted"
        # The twin: without the feature the same statement fails.
        set_flag("false")
        try:
            stock = Table(spark)
            try:
                statement(stock)
            except Exception as e:  # noqa: BLE001 each way has its own exceptions
                assert "DELTA_CONCURRENT_APPEND" in str(e), f"stock Delta failed with {e}"
            else:
                raise AssertionError("stock Delta committed both")
            if alone:
                assert stock.rows() == {i: i * 10 for i in range(10) if i != 2}, f"{stock.rows()} on stock"
                assert metric(spark, "resolved") - before == merged, "stock Delta merged"
        finally:
            set_flag("true")
        return "both commit, stock Delta conflicts"
    check(name, both_commit)


def on(session):
    """How the flag is set in a session."""
    return lambda value: session.conf.set(FLAG, value)


MERGE = "MERGE INTO {t} t USING (SELECT 1L AS k) s ON t.id = s.k WHEN MATCHED THEN DELETE"
UPDATE = "UPDATE {t} SET v = -1 WHERE id = 1"
DELETE = "DELETE FROM {t} WHERE id = 1"


def sql_ways(spark, prefix, run, set_flag):
    way(spark, f"{prefix}: SQL DELETE", lambda t: run(DELETE.replace("{t}", t.name)), set_flag)
    way(spark, f"{prefix}: SQL UPDATE", lambda t: run(UPDATE.replace("{t}", t.name)), set_flag, updated={1: -1})
    way(spark, f"{prefix}: SQL MERGE", lambda t: run(MERGE.replace("{t}", t.name)), set_flag)


def classic(spark):
    def table(t, session=spark):
        return DeltaTable.forPath(session, str(t.path))

    def stream(t):
        source = ROOT / f"source-{t.path.name}"
        spark.range(1, 2).toDF("k").write.format("delta").save(str(source))

        def upsert(batch, _):
            (DeltaTable.forPath(batch.sparkSession, str(t.path)).alias("t")
                .merge(batch.alias("s"), "t.id = s.k").whenMatchedDelete().execute())
        (spark.readStream.format("delta").load(str(source)).writeStream.foreachBatch(upsert)
            .option("checkpointLocation", str(source) + "-checkpoint")
            .trigger(availableNow=True).start().awaitTermination())

    def pool(t):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda i: spark.sql(f"DELETE FROM {t.name} WHERE id = {i}"), (1, 3, 5, 7)))

    sql_ways(spark, "PySpark", spark.sql, on(spark))
    way(spark, "PySpark: DeltaTable.delete", lambda t: table(t).delete("id = 1"), on(spark))
    way(spark, "PySpark: DeltaTable.update",
        lambda t: table(t).update("id = 1", {"v": F.lit(-1)}), on(spark), updated={1: -1})
    way(spark, "PySpark: DeltaTable.merge", lambda t: table(t).alias("t").merge(
        spark.range(1, 2).toDF("k").alias("s"), "t.id = s.k").whenMatchedDelete().execute(), on(spark))
    way(spark, "PySpark: DataFrame.mergeInto", lambda t: spark.range(1, 2).toDF("k").mergeInto(
        t.name, F.expr("id = k")).whenMatched().delete().merge(), on(spark))
    way(spark, "PySpark: MERGE in foreachBatch", stream, on(spark))
    way(spark, "PySpark: a pool of threads", pool, on(spark), left=(0, 4, 6, 8, 9), alone=False)
    other = spark.newSession()
    way(spark, "PySpark: newSession", lambda t: other.sql(DELETE.replace("{t}", t.name)), on(other))


def connect(spark):
    from pyspark.sql.connect import functions as CF
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    remote = RemoteSession.builder.remote(f"sc://127.0.0.1:{CONNECT_PORT}").create()
    try:
        sql_ways(spark, "[S79] Spark Connect", lambda text: remote.sql(text).collect(), on(remote))
        way(spark, "[S79] Spark Connect: DataFrame.mergeInto", lambda t: remote.range(1, 2).toDF("k").mergeInto(
            t.name, CF.expr("id = k")).whenMatched().delete().merge(), on(remote))
    finally:
        remote.stop()


def thrift(spark):
    jvm = spark._jvm
    server = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2.startWithContext(
        spark._jsparkSession.sqlContext())
    jvm.java.lang.Class.forName("org.apache.hive.jdbc.HiveDriver")
    connection = jvm.java.sql.DriverManager.getConnection(f"jdbc:hive2://127.0.0.1:{THRIFT_PORT}/", "anonymous", "")

    def run(text):
        statement = connection.createStatement()
        try:
            statement.execute(text)
        finally:
            statement.close()
    try:
        sql_ways(spark, "Thrift server, JDBC", run, lambda value: run(f"SET {FLAG}={value}"))
    finally:
        connection.close()
        server.stop()


def restart(jar_dir):
    """A second SparkContext in the JVM of the first has metrics of its own."""
    def fresh():
        spark = start({"spark.jars": jars(jar_dir, ",")})
        try:
            table = Table(spark)
            assert metric(spark, "resolved") == 0
            spark.sql(DELETE.replace("{t}", table.name))
            assert metric(spark, "resolved") == 1 and metric(spark, "aborted.overlap") == 0
            with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/metrics/prometheus/") as page:
                lines = [x for x in page.read().decode().splitlines() if "rowLevelConcurrency_resolved_Count" in x]
            assert len(lines) == 1 and lines[0].endswith(" 1"), lines
        finally:
            spark.stop()
    check("a second SparkContext in one JVM: metrics, by JSON and Prometheus, start again", fresh)


def submit(jar_dir):
    """This script once more, through spark-submit --jars."""
    def run():
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
                   "--master", "local[2]", "--jars", jars(jar_dir, ",")]
        for key, value in options().items():
            command += ["--conf", f"{key}={value}"]
        done = subprocess.run(command + [__file__, jar_dir, "submitted"], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYSPARK_PYTHON": sys.executable})
        assert done.returncode == 0 and "1 passed, 0 failed" in done.stdout, done.stdout + done.stderr[-3000:]
    check("spark-submit --jars", run)


def submitted():
    spark = SparkSession.builder.getOrCreate()
    way(spark, "submitted", lambda t: spark.sql(DELETE.replace("{t}", t.name)), on(spark))
    spark.stop()


def main():
    jar_dir, parts = sys.argv[1], sys.argv[2:] or PARTS
    try:
        if parts == ["submitted"]:
            submitted()
        else:
            unknown = set(parts) - set(PARTS)
            if unknown:
                sys.exit(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
            if {"classic", "connect", "thrift"} & set(parts):
                spark = start(server_options(jar_dir))
                for part in (classic, connect, thrift):
                    if part.__name__ in parts:
                        part(spark)
                spark.stop()
            if "restart" in parts:
                restart(jar_dir)
            if "submit" in parts:
                submit(jar_dir)
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) and results else 1


if __name__ == "__main__":
    sys.exit(main())
