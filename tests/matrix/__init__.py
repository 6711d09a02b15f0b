"""Every kind of participant meets all that may befall a batch. Whoever adds a participant adds one check here."""
