"""The rows of Delta tables as delta-rs reads them: one line of JSON for each folder given."""

import json
import sys

from deltalake import DeltaTable, QueryBuilder

for folder in sys.argv[1:]:
    table = DeltaTable(folder)
    found = QueryBuilder().register("t", table).execute("SELECT id, v FROM t ORDER BY id, v").read_all()
    rows = zip(found["id"].to_pylist(), found["v"].to_pylist())
    print(json.dumps({"version": table.version(), "rows": [list(row) for row in rows]}))
