"""The default model beside what a careful person writes in fifteen lines: quality and seconds."""
