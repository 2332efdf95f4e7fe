"""Object stores: the contract, the table of stores, the HTTP engine, and a driver per store."""
