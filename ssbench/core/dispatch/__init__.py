"""Job accounting: workers that joined, jobs in flight, and what to send next."""
