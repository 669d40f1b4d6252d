// Two DELETEs of different rows of one file, for `./dev test-packages` in spark-shell; see race.py.
import java.io.File
import java.nio.file.Files
import scala.util.Try

def awaitFile(file: File, thread: Thread): Unit = while (!file.exists) {
  assert(thread.isAlive, "the held DELETE ended before it scanned a row")
  Thread.sleep(20)
}

spark.udf.register("hold", (id: Long, signal: String) => {
  new java.io.File(signal + ".reached").createNewFile()
  while (!new java.io.File(signal).exists) Thread.sleep(20)
  id
})

// The held DELETE's error, the ids that are gone, the versions that the DELETEs read.
def race(flag: Boolean): (Option[Throwable], Seq[Long], Seq[Long]) = {
  spark.conf.set("spark.databricks.delta.rowLevelConcurrency.enabled", flag.toString)
  val base = Files.createTempDirectory("delta-rlc-").toString
  val (table, signal) = (s"delta.`$base/t`", new File(base, "signal"))
  spark.range(0, 100, 1, 1).write.format("delta").option("delta.enableDeletionVectors", "true").save(s"$base/t")
  @volatile var result: Try[Any] = null
  val loser = new Thread(() =>
    result = Try(spark.sql(s"DELETE FROM $table WHERE hold(id, '$signal') = 1").collect()))
  loser.start()
  awaitFile(new File(s"$signal.reached"), loser)
  spark.sql(s"DELETE FROM $table WHERE id = 2").collect()
  signal.createNewFile()
  loser.join()
  val left = spark.table(table).collect().map(_.getLong(0)).toSet
  val reads = spark.sql(s"DESCRIBE HISTORY $table").where("operation = 'DELETE'").select("readVersion").collect()
  (result.failed.toOption, (0L until 100L).filterNot(left), reads.map(_.getLong(0)).toSeq)
}

def check(what: String, is: Any, should: Any): Unit = assert(is == should, s"$what: $is instead of $should")

val raced = Try {
  val (stockError, stockGone, stockReads) = race(flag = false)
  check("stock Delta's conflict", stockError.map(_.getClass.getSimpleName), Some("ConcurrentAppendException"))
  check("gone on stock Delta", (stockGone, stockReads), (Seq(2L), Seq(0L)))
  val (error, gone, reads) = race(flag = true)
  error.foreach(throw _)
  check("gone", (gone, reads), (Seq(1L, 2L), Seq(0L, 0L)))
}
raced.failed.foreach(_.printStackTrace())
if (raced.isSuccess) println(s"RACE PASSED: Spark ${spark.version}, both DELETEs committed")
System.exit(if (raced.isSuccess) 0 else 1)
