"""From logits to ids: the only reader of logits."""
