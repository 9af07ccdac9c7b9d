"""Operations on weights."""
