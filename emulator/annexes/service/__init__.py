"""`charkha serve`: users, queues for devices under test, and their runs, over HTTP and as pages."""
