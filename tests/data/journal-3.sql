-- A journal as version 3 of the schema made it, with the older names of columns and notes.
CREATE TABLE attempts ( cell VARCHAR NOT NULL, block INTEGER NOT NULL, number INTEGER NOT NULL, started VARCHAR NOT NULL, reason TEXT NOT NULL, tail TEXT NOT NULL, PRIMARY KEY (cell, block, number) );
INSERT INTO "attempts" VALUES('c1',2,1,'','the guest panicked','Kernel panic');
CREATE TABLE begun ( cell VARCHAR NOT NULL, block INTEGER NOT NULL, attempt INTEGER NOT NULL, boot_id VARCHAR NOT NULL, started VARCHAR NOT NULL, PRIMARY KEY (cell, block, attempt) );
INSERT INTO "begun" VALUES('c1',3,1,'boot','2026-03-04T05:06:09.000+00:00');
CREATE TABLE cells ( id VARCHAR NOT NULL, name TEXT NOT NULL, axes JSON NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (id) );
INSERT INTO "cells" VALUES('c1','raid5/chunk=64KiB/seq','{"layout":"raid5","md.chunk":"64KiB","workload":"seq","workload.bs":"1MiB"}',1);
CREATE TABLE meta ( "key" VARCHAR NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key") );
INSERT INTO "meta" VALUES('schema','3');
INSERT INTO "meta" VALUES('made_up','true');
CREATE TABLE retried ( id INTEGER NOT NULL, cell VARCHAR NOT NULL, block INTEGER NOT NULL, attempts INTEGER NOT NULL, outcome VARCHAR NOT NULL, reason TEXT NOT NULL, started VARCHAR NOT NULL, PRIMARY KEY (id) );
INSERT INTO "retried" VALUES(1,'c1',2,2,'broken','the guest panicked','2026-03-04T05:06:02.000+00:00');
CREATE TABLE trials ( id INTEGER NOT NULL, cell VARCHAR NOT NULL, block INTEGER NOT NULL, outcome VARCHAR NOT NULL, reason TEXT NOT NULL, started VARCHAR NOT NULL, seconds FLOAT NOT NULL, attempts INTEGER NOT NULL, folder TEXT NOT NULL, runtime FLOAT, cpu_usr FLOAT, cpu_sys FLOAT, errors INTEGER, read_bw FLOAT, read_iops FLOAT, read_bytes BIGINT, read_ios BIGINT, read_lat_mean FLOAT, read_lat_p50 FLOAT, read_lat_p90 FLOAT, read_lat_p95 FLOAT, read_lat_p99 FLOAT, read_lat_p999 FLOAT, read_lat_p9999 FLOAT, read_lat_max FLOAT, write_bw FLOAT, write_iops FLOAT, write_bytes BIGINT, write_ios BIGINT, write_lat_mean FLOAT, write_lat_p50 FLOAT, write_lat_p90 FLOAT, write_lat_p95 FLOAT, write_lat_p99 FLOAT, write_lat_p999 FLOAT, write_lat_p9999 FLOAT, write_lat_max FLOAT, read_latencies BLOB, write_latencies BLOB, readings JSON NOT NULL, notes JSON NOT NULL, PRIMARY KEY (id), CONSTRAINT one_trial_per_cell_and_block UNIQUE (cell, block), FOREIGN KEY(cell) REFERENCES cells (id) );
INSERT INTO "trials" VALUES(1,'c1',1,'measured','','2026-03-04T05:06:01.000+00:00',1.25,1,'cells/c1/trial-1',1.0,3.0,4.0,0,200000000.0,48828.125,200000000,48828,5000000.0,4000000.0,8000000.0,8500000.0,9000000.0,9500000.0,9900000.0,10000000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'789C8B8E363100031D186D8A421942446375A2CD0C748C81C23A263A86B1B10039BE0B5B',NULL,'[["md.chunk","65536","65536"],["disk0.rotational",null,"1"]]','{"kernel":"6.1.0-28-amd64","strain":"0.0900","strained":"9.0% (\"late\")"}');
INSERT INTO "trials" VALUES(2,'c1',2,'broken','the guest panicked','2026-03-04T05:06:02.000+00:00',0.0,2,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'[]','{}');
CREATE TABLE troubles ( id INTEGER NOT NULL, at VARCHAR NOT NULL, what TEXT NOT NULL, PRIMARY KEY (id) );
INSERT INTO "troubles" VALUES(1,'2026-03-04T05:06:07+00:00','the store was away');
CREATE TABLE visits ( id INTEGER NOT NULL, block INTEGER NOT NULL, array VARCHAR NOT NULL, seconds FLOAT NOT NULL, PRIMARY KEY (id) );
INSERT INTO "visits" VALUES(1,1,'single',0.5);
