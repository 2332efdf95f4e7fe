"""The worker: takes jobs, has its users do them through the storage, sends results."""
