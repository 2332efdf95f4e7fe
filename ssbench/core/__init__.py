"""The ground floor: what a run is and means, without sockets, files, clocks or printing."""
