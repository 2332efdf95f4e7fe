"""What is to be done, when and by whom: jobs drawn, paced, sent out, and accounted for."""
