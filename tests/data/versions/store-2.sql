BEGIN TRANSACTION;
CREATE TABLE cells (
	run VARCHAR NOT NULL, 
	id VARCHAR NOT NULL, 
	name TEXT NOT NULL, 
	axes JSON NOT NULL, 
	position INTEGER, 
	crc BIGINT NOT NULL, 
	PRIMARY KEY (run, id)
)
 WITHOUT ROWID

;
INSERT INTO "cells" VALUES('run1','c1','raid5/chunk=64KiB/seq','{"layout":"raid5","md.chunk":"64KiB","workload":"seq","workload.bs":"1MiB"}',1,3839379632);
INSERT INTO "cells" VALUES('run1','c2','raid5/chunk=16KiB/oltp','{"layout":"raid5","md.chunk":"16KiB","workload":"oltp"}',2,1068020218);
CREATE TABLE jobs (
	run VARCHAR NOT NULL, 
	cell VARCHAR NOT NULL, 
	round INTEGER NOT NULL, 
	job VARCHAR NOT NULL, 
	position INTEGER NOT NULL, 
	runtime FLOAT NOT NULL, 
	cpu_usr FLOAT NOT NULL, 
	cpu_sys FLOAT NOT NULL, 
	errors INTEGER NOT NULL, 
	read_bw FLOAT, 
	read_iops FLOAT, 
	read_bytes BIGINT, 
	read_ios BIGINT, 
	read_lat_mean FLOAT, 
	read_lat_p50 FLOAT, 
	read_lat_p90 FLOAT, 
	read_lat_p95 FLOAT, 
	read_lat_p99 FLOAT, 
	read_lat_p999 FLOAT, 
	read_lat_p9999 FLOAT, 
	read_lat_max FLOAT, 
	write_bw FLOAT, 
	write_iops FLOAT, 
	write_bytes BIGINT, 
	write_ios BIGINT, 
	write_lat_mean FLOAT, 
	write_lat_p50 FLOAT, 
	write_lat_p90 FLOAT, 
	write_lat_p95 FLOAT, 
	write_lat_p99 FLOAT, 
	write_lat_p999 FLOAT, 
	write_lat_p9999 FLOAT, 
	write_lat_max FLOAT, 
	trim_bw FLOAT, 
	trim_iops FLOAT, 
	trim_bytes BIGINT, 
	trim_ios BIGINT, 
	trim_lat_mean FLOAT, 
	trim_lat_p50 FLOAT, 
	trim_lat_p90 FLOAT, 
	trim_lat_p95 FLOAT, 
	trim_lat_p99 FLOAT, 
	trim_lat_p999 FLOAT, 
	trim_lat_p9999 FLOAT, 
	trim_lat_max FLOAT, 
	sync_iops FLOAT, 
	sync_ios BIGINT, 
	sync_lat_mean FLOAT, 
	sync_lat_p50 FLOAT, 
	sync_lat_p90 FLOAT, 
	sync_lat_p95 FLOAT, 
	sync_lat_p99 FLOAT, 
	sync_lat_p999 FLOAT, 
	sync_lat_p9999 FLOAT, 
	sync_lat_max FLOAT, 
	read_latencies BLOB, 
	write_latencies BLOB, 
	trim_latencies BLOB, 
	sync_latencies BLOB, 
	crc BIGINT NOT NULL, 
	PRIMARY KEY (run, cell, round, job)
)
 WITHOUT ROWID

;
CREATE TABLE latencies (
	run VARCHAR NOT NULL, 
	cell VARCHAR NOT NULL, 
	round INTEGER NOT NULL, 
	read_latencies BLOB, 
	write_latencies BLOB, 
	trim_latencies BLOB, 
	sync_latencies BLOB, 
	crc BIGINT NOT NULL, 
	PRIMARY KEY (run, cell, round)
)
 WITHOUT ROWID

;
INSERT INTO "latencies" VALUES('run1','c1',1,X'789C8B8E363100031D186D8A421942446375A2CD0C748C81C23A263A86B1B10039BE0B5B',NULL,NULL,NULL,2153422843);
INSERT INTO "latencies" VALUES('run1','c2',1,X'789C8B8E363100031D186D8A421942446375A2CD0C748C81C23A263A86B1B10039BE0B5B',X'789C8B8E363100031D186D8A421942446375A2CD0C748C81C23A263A86B1B10039BE0B5B',NULL,NULL,1852040270);
CREATE TABLE meta (
	"key" VARCHAR NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('kind','shared store');
INSERT INTO "meta" VALUES('version','2');
INSERT INTO "meta" VALUES('statements','417031268');
CREATE TABLE readings (
	digest VARCHAR NOT NULL, 
	content JSON NOT NULL, 
	PRIMARY KEY (digest)
)
 WITHOUT ROWID

;
INSERT INTO "readings" VALUES('8b85697a8a29a996','[["md.chunk","65536","65536"],["disk0.rotational",null,"1"]]');
CREATE TABLE runs (
	id VARCHAR NOT NULL, 
	name TEXT NOT NULL, 
	matrix TEXT NOT NULL, 
	machine TEXT NOT NULL, 
	synthetic BOOLEAN NOT NULL, 
	fingerprint TEXT NOT NULL, 
	host TEXT NOT NULL, 
	revision TEXT NOT NULL, 
	started VARCHAR NOT NULL, 
	finished BOOLEAN NOT NULL, 
	planned INTEGER NOT NULL, 
	confidence FLOAT NOT NULL, 
	until FLOAT, 
	least INTEGER NOT NULL, 
	most INTEGER, 
	environment JSON NOT NULL, 
	part TEXT NOT NULL, 
	exit INTEGER, 
	settled TEXT NOT NULL, 
	tags JSON, 
	note TEXT, 
	excluded TEXT, 
	crc BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "runs" VALUES('run1','run-1','sweep','qemu',0,'f1','lab1','','2026-03-01T05:06:07+00:00',1,4,0.95,NULL,2,NULL,'{"seed":"7","host.kernel":"6.1.0","host.cpu":"some cpu","host.cores":"2","host.memory":"4294967296","host.hostname":"lab1","6.1.0: fio":"3.33"}','',NULL,'884ddbeae6fd4dc26864acc7047ce6dd',NULL,NULL,NULL,3150124615);
CREATE TABLE trials (
	run VARCHAR NOT NULL, 
	cell VARCHAR NOT NULL, 
	round INTEGER NOT NULL, 
	outcome VARCHAR NOT NULL, 
	reason TEXT NOT NULL, 
	started VARCHAR NOT NULL, 
	seconds FLOAT NOT NULL, 
	attempts INTEGER NOT NULL, 
	folder TEXT NOT NULL, 
	host_limited TEXT NOT NULL, 
	unsettled TEXT NOT NULL, 
	kernel TEXT NOT NULL, 
	slow INTEGER NOT NULL, 
	settled INTEGER NOT NULL, 
	saturated INTEGER NOT NULL, 
	host TEXT NOT NULL, 
	spread INTEGER NOT NULL, 
	iowait FLOAT, 
	evenness FLOAT, 
	host_limited_share FLOAT, 
	steady INTEGER, 
	written_in_rounds BIGINT, 
	lost FLOAT, 
	lost_late FLOAT, 
	lost_idle FLOAT, 
	lost_transit FLOAT, 
	lost_crowded FLOAT, 
	lost_programs FLOAT, 
	lost_machines FLOAT, 
	readings VARCHAR NOT NULL, 
	notes JSON NOT NULL, 
	sync_seconds FLOAT, 
	sync_bw FLOAT, 
	runtime FLOAT, 
	cpu_usr FLOAT, 
	cpu_sys FLOAT, 
	errors INTEGER, 
	read_bw FLOAT, 
	read_iops FLOAT, 
	read_bytes BIGINT, 
	read_ios BIGINT, 
	read_lat_mean FLOAT, 
	read_lat_p50 FLOAT, 
	read_lat_p90 FLOAT, 
	read_lat_p95 FLOAT, 
	read_lat_p99 FLOAT, 
	read_lat_p999 FLOAT, 
	read_lat_p9999 FLOAT, 
	read_lat_max FLOAT, 
	write_bw FLOAT, 
	write_iops FLOAT, 
	write_bytes BIGINT, 
	write_ios BIGINT, 
	write_lat_mean FLOAT, 
	write_lat_p50 FLOAT, 
	write_lat_p90 FLOAT, 
	write_lat_p95 FLOAT, 
	write_lat_p99 FLOAT, 
	write_lat_p999 FLOAT, 
	write_lat_p9999 FLOAT, 
	write_lat_max FLOAT, 
	trim_bw FLOAT, 
	trim_iops FLOAT, 
	trim_bytes BIGINT, 
	trim_ios BIGINT, 
	trim_lat_mean FLOAT, 
	trim_lat_p50 FLOAT, 
	trim_lat_p90 FLOAT, 
	trim_lat_p95 FLOAT, 
	trim_lat_p99 FLOAT, 
	trim_lat_p999 FLOAT, 
	trim_lat_p9999 FLOAT, 
	trim_lat_max FLOAT, 
	sync_iops FLOAT, 
	sync_ios BIGINT, 
	sync_lat_mean FLOAT, 
	sync_lat_p50 FLOAT, 
	sync_lat_p90 FLOAT, 
	sync_lat_p95 FLOAT, 
	sync_lat_p99 FLOAT, 
	sync_lat_p999 FLOAT, 
	sync_lat_p9999 FLOAT, 
	sync_lat_max FLOAT, 
	lost_processor FLOAT, 
	crc BIGINT NOT NULL, 
	PRIMARY KEY (run, cell, round)
)
 WITHOUT ROWID

;
INSERT INTO "trials" VALUES('run1','c1',1,'measured','','2026-03-04T05:06:01.000+00:00',1.25,1,'cells/c1/trial-1','','','6.1.0',1,1,0,'',0,NULL,NULL,NULL,NULL,NULL,0.2,NULL,0.1,NULL,NULL,NULL,NULL,'8b85697a8a29a996','{"kernel":"6.1.0"}',NULL,NULL,1.0,3.0,4.0,0,200000000.0,48828.125,200000000,48828,5000000.0,4000000.0,8000000.0,8500000.0,9000000.0,9500000.0,9900000.0,10000000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0.1,2877306472);
INSERT INTO "trials" VALUES('run1','c2',1,'measured','','2026-03-04T05:06:01.000+00:00',1.25,1,'cells/c2/trial-1','','','6.1.0',1,1,0,'',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'8b85697a8a29a996','{"kernel":"6.1.0"}',NULL,NULL,1.0,3.0,4.0,0,400000.0,97.65625,400000,97,5000000.0,4000000.0,8000000.0,8500000.0,9000000.0,9500000.0,9900000.0,10000000.0,300000.0,73.2421875,300000,73,5000000.0,4000000.0,8000000.0,8500000.0,9000000.0,9500000.0,9900000.0,10000000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,319089198);
CREATE INDEX trials_of_a_cell ON trials (cell, run);
CREATE INDEX latencies_of_a_cell ON latencies (cell, run);
CREATE VIEW v_trials AS SELECT runs.id AS run, runs.name AS run_name, runs.started AS run_started, runs.matrix, runs.machine, runs.host, runs.part, runs.revision, runs.synthetic, cells.id AS cell, cells.name, (cells.axes ->> 'layout') AS layout, (cells.axes ->> 'workload') AS workload, cells.axes, one.kernel, one.host_limited, one.unsettled, one.round, one.outcome, one.reason, one.started, one.seconds, one.attempts, one.folder, one.runtime, one.cpu_usr, one.cpu_sys, one.errors, one.sync_bw, one.sync_seconds, CASE WHEN coalesce(one.read_bw, one.write_bw, one.trim_bw) IS NOT NULL THEN coalesce(one.read_bw, 0) + coalesce(one.write_bw, 0) + coalesce(one.trim_bw, 0) END AS total_bw, CASE WHEN coalesce(one.read_iops, one.write_iops, one.trim_iops) IS NOT NULL THEN coalesce(one.read_iops, 0) + coalesce(one.write_iops, 0) + coalesce(one.trim_iops, 0) END AS total_iops, one.read_bw, one.read_iops, one.read_bytes, one.read_ios, one.read_lat_mean, one.read_lat_p50, one.read_lat_p90, one.read_lat_p95, one.read_lat_p99, one.read_lat_p999, one.read_lat_p9999, one.read_lat_max, one.write_bw, one.write_iops, one.write_bytes, one.write_ios, one.write_lat_mean, one.write_lat_p50, one.write_lat_p90, one.write_lat_p95, one.write_lat_p99, one.write_lat_p999, one.write_lat_p9999, one.write_lat_max, one.trim_bw, one.trim_iops, one.trim_bytes, one.trim_ios, one.trim_lat_mean, one.trim_lat_p50, one.trim_lat_p90, one.trim_lat_p95, one.trim_lat_p99, one.trim_lat_p999, one.trim_lat_p9999, one.trim_lat_max, one.sync_iops, one.sync_ios, one.sync_lat_mean, one.sync_lat_p50, one.sync_lat_p90, one.sync_lat_p95, one.sync_lat_p99, one.sync_lat_p999, one.sync_lat_p9999, one.sync_lat_max FROM trials AS one JOIN cells ON cells.id = one.cell AND cells.run = one.run JOIN runs ON runs.id = one.run;
CREATE VIEW v_cells AS SELECT runs.id AS run, runs.name AS run_name, runs.started AS run_started, runs.matrix, runs.machine, runs.host, runs.part, runs.revision, runs.synthetic, cells.id AS cell, cells.name, (cells.axes ->> 'layout') AS layout, (cells.axes ->> 'workload') AS workload, cells.axes, one.trials, one.measured, one.corrupt, one.broken, one.skipped, one.host_limited, one.unsettled, one.total_bw, one.total_bw_var, one.total_iops, one.total_iops_var, one.read_bw, one.read_bw_var, one.read_iops, one.read_iops_var, one.write_bw, one.write_bw_var, one.write_iops, one.write_iops_var, one.trim_bw, one.trim_bw_var, one.trim_iops, one.trim_iops_var, one.read_lat_mean, one.read_lat_p50, one.read_lat_p90, one.read_lat_p95, one.read_lat_p99, one.read_lat_p999, one.read_lat_p9999, one.read_lat_max, one.write_lat_mean, one.write_lat_p50, one.write_lat_p90, one.write_lat_p95, one.write_lat_p99, one.write_lat_p999, one.write_lat_p9999, one.write_lat_max, one.trim_lat_mean, one.trim_lat_p50, one.trim_lat_p90, one.trim_lat_p95, one.trim_lat_p99, one.trim_lat_p999, one.trim_lat_p9999, one.trim_lat_max, one.sync_bw, one.sync_seconds, one.sync_iops, one.sync_iops_var, one.sync_lat_mean, one.sync_lat_p50, one.sync_lat_p90, one.sync_lat_p95, one.sync_lat_p99, one.sync_lat_p999, one.sync_lat_p9999, one.sync_lat_max FROM (SELECT run, cell, count(*) AS trials, count(CASE WHEN outcome = 'measured' THEN 1 END) AS measured, count(CASE WHEN outcome = 'corrupt' THEN 1 END) AS corrupt, count(CASE WHEN outcome = 'broken' THEN 1 END) AS broken, count(CASE WHEN outcome = 'skipped' THEN 1 END) AS skipped, count(CASE WHEN host_limited <> '' THEN 1 END) AS host_limited, count(CASE WHEN unsettled <> '' THEN 1 END) AS unsettled, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_bw END) AS total_bw, abs((sum(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_bw END * CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_bw END) - count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_bw END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_bw END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_bw END)) / nullif(count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_bw END) - 1, 0)) AS total_bw_var, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_iops END) AS total_iops, abs((sum(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_iops END * CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_iops END) - count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_iops END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_iops END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_iops END)) / nullif(count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN total_iops END) - 1, 0)) AS total_iops_var, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_bw END) AS read_bw, abs((sum(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_bw END * CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_bw END) - count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_bw END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_bw END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_bw END)) / nullif(count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_bw END) - 1, 0)) AS read_bw_var, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_iops END) AS read_iops, abs((sum(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_iops END * CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_iops END) - count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_iops END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_iops END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_iops END)) / nullif(count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_iops END) - 1, 0)) AS read_iops_var, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_bw END) AS write_bw, abs((sum(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_bw END * CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_bw END) - count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_bw END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_bw END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_bw END)) / nullif(count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_bw END) - 1, 0)) AS write_bw_var, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_iops END) AS write_iops, abs((sum(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_iops END * CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_iops END) - count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_iops END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_iops END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_iops END)) / nullif(count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_iops END) - 1, 0)) AS write_iops_var, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_bw END) AS trim_bw, abs((sum(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_bw END * CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_bw END) - count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_bw END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_bw END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_bw END)) / nullif(count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_bw END) - 1, 0)) AS trim_bw_var, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_iops END) AS trim_iops, abs((sum(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_iops END * CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_iops END) - count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_iops END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_iops END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_iops END)) / nullif(count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_iops END) - 1, 0)) AS trim_iops_var, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_lat_mean END) AS read_lat_mean, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_lat_p50 END) AS read_lat_p50, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_lat_p90 END) AS read_lat_p90, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_lat_p95 END) AS read_lat_p95, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_lat_p99 END) AS read_lat_p99, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_lat_p999 END) AS read_lat_p999, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_lat_p9999 END) AS read_lat_p9999, max(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN read_lat_max END) AS read_lat_max, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_lat_mean END) AS write_lat_mean, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_lat_p50 END) AS write_lat_p50, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_lat_p90 END) AS write_lat_p90, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_lat_p95 END) AS write_lat_p95, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_lat_p99 END) AS write_lat_p99, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_lat_p999 END) AS write_lat_p999, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_lat_p9999 END) AS write_lat_p9999, max(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN write_lat_max END) AS write_lat_max, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_lat_mean END) AS trim_lat_mean, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_lat_p50 END) AS trim_lat_p50, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_lat_p90 END) AS trim_lat_p90, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_lat_p95 END) AS trim_lat_p95, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_lat_p99 END) AS trim_lat_p99, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_lat_p999 END) AS trim_lat_p999, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_lat_p9999 END) AS trim_lat_p9999, max(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN trim_lat_max END) AS trim_lat_max, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_bw END) AS sync_bw, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_seconds END) AS sync_seconds, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_iops END) AS sync_iops, abs((sum(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_iops END * CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_iops END) - count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_iops END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_iops END) * avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_iops END)) / nullif(count(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_iops END) - 1, 0)) AS sync_iops_var, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_lat_mean END) AS sync_lat_mean, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_lat_p50 END) AS sync_lat_p50, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_lat_p90 END) AS sync_lat_p90, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_lat_p95 END) AS sync_lat_p95, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_lat_p99 END) AS sync_lat_p99, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_lat_p999 END) AS sync_lat_p999, avg(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_lat_p9999 END) AS sync_lat_p9999, max(CASE WHEN (outcome = 'measured') AND unsettled = '' THEN sync_lat_max END) AS sync_lat_max FROM v_trials GROUP BY run, cell) AS one JOIN cells ON cells.id = one.cell AND cells.run = one.run JOIN runs ON runs.id = one.run;
COMMIT;
