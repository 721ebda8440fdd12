CREATE TABLE m (a LONGTEXT) ENGINE = MyISAM;
SET GLOBAL max_binlog_stmt_cache_size = 4096;
connect s
delimiter //
CREATE PROCEDURE fail() BEGIN
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
  INSERT INTO m SELECT REPEAT('x', 100000);
END//
delimiter ;
CALL fail();
SET GLOBAL max_binlog_stmt_cache_size = DEFAULT;
