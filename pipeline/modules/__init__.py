"""PyTorch modules as tasks: torch.export gives their operators, two sets of sizes their dims."""
