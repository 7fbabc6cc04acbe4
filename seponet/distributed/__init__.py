"""Several processes that run one command together: how they find each other, talk, and end."""
