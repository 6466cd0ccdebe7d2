{# Nothing is left of it but noise, in which set-up left nothing that could be recognised. #}
