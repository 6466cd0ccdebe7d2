{# Only random data remains, from which set-up has removed all signatures. #}
